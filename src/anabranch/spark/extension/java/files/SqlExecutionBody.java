package anabranch;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.spark.SparkContext;
import org.apache.spark.unsafe.Platform;

/**
 * A call to a static method of Spark, as the body of a SQL execution.
 *
 * Only in a SQL execution do executors have the session's settings, and the query is in the SQL tab.
 */
public final class SqlExecutionBody implements scala.Function0 {
  private final SparkContext context;
  private final String[] settings;
  private final Method method;
  private final Object[] arguments;

  /** @param settings alternating keys and values, which go before the session's for this call */
  public SqlExecutionBody(SparkContext context, String[] settings, Class owner, String method, Object[] arguments) {
    this.context = context;
    this.settings = settings;
    this.method = named(owner, method, arguments.length);
    this.arguments = arguments;
  }

  private static Method named(Class owner, String name, int count) {
    Method[] methods = owner.getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (methods[i].getName().equals(name) && methods[i].getParameterTypes().length == count) return methods[i];
    }
    throw new IllegalArgumentException(owner.getName() + " has no method " + name + " of " + count + " arguments");
  }

  public Object apply() {
    String[] before = new String[settings.length];
    for (int i = 0; i < settings.length; i += 2) {
      before[i] = context.getLocalProperty(settings[i]);
      context.setLocalProperty(settings[i], settings[i + 1]);
    }
    try {
      return called();
    } finally {
      for (int i = 0; i < settings.length; i += 2) context.setLocalProperty(settings[i], before[i]);
    }
  }

  /** With one catch: for two with code after them Spark's compiler generates code that the JVM refuses. */
  private Object called() {
    try {
      return method.invoke(null, arguments);
    } catch (ReflectiveOperationException failure) {
      Platform.throwException(failure instanceof InvocationTargetException ? failure.getCause() : failure);
      return null;
    }
  }
}
