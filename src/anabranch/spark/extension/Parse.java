package delta;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.regex.Pattern;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.VariableSubstitution;

/** Spark's parser, and before it ours for the few statements that Spark's does not know. A proxy: the interface grows from version to version. */
public class Parse implements InvocationHandler {
  public final Object spark;
  private final Pattern ours;

  public Parse(Object spark, String ours) {
    this.spark = spark;
    this.ours = Pattern.compile(ours, 34);  // CASE_INSENSITIVE | DOTALL
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    JarsLoader.leaveHives();
    if (Python.isOpen() && method.getName().startsWith("parsePlan") && ours.matcher((String) arguments[0]).find()) {
      String text = new VariableSubstitution().substitute((String) arguments[0]);
      Object session = org.apache.spark.sql.classic.SparkSession.active();
      LogicalPlan plan = (LogicalPlan) Python.ask("parse", new Object[] {session, text});
      if (plan != null) return arguments.length > 1 ? Parameters.bound(plan, arguments[1]) : plan;
    }
    try {
      return Listings.asAsked(method.invoke(spark, arguments));
    } catch (InvocationTargetException error) {
      // What Spark says of values, such as one too few, no proxy may throw. The analyzer says the same of parameters that are left.
      if (error.getCause() instanceof AnalysisException && !(error.getCause() instanceof ParseException) && arguments.length > 1)
        return Parameters.left(((ParserInterface) proxy).parsePlan((String) arguments[0]), arguments[1]);
      String quoted = error.getCause() instanceof ParseException ? quoted(arguments) : null;
      if (quoted == null) throw error.getCause();
      Object[] again = java.util.Arrays.copyOf(arguments, arguments.length);
      again[0] = quoted;
      return invoke(proxy, method, again);
    }
  }

  /** The text with `t@v3` in quotes, where it has such, and something else was not wrong with it. */
  private static String quoted(Object[] arguments) {
    if (!Python.isOpen() || arguments == null || !(arguments[0] instanceof String)) return null;
    String text = (String) arguments[0];
    return text.indexOf('@') < 0 ? null : (String) Python.ask("versions quoted", new Object[] {text});
  }

  public static Object around(Object spark, String ours) {
    return Proxy.newProxyInstance(ParserInterface.class.getClassLoader(), new Class[] {ParserInterface.class}, new Parse(spark, ours));
  }
}
