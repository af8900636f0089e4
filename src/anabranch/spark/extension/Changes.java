package delta;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * What `CHANGES FROM` gets from our catalog. Spark has the interface since 4.2, so a proxy implements it. It only carries the
 * table of changes, which takes the place of the relation (Reads) before Spark would scan it.
 */
public class Changes implements InvocationHandler {
  private final DeltaTable feed;

  private Changes(DeltaTable feed) {
    this.feed = feed;
  }

  public static Object of(DeltaTable feed) {
    try {
      Class type = Class.forName("org.apache.spark.sql.connector.catalog.Changelog");
      return Proxy.newProxyInstance(type.getClassLoader(), new Class[] {type}, new Changes(feed));
    } catch (ClassNotFoundException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The table of changes that the relation stands for, or null. */
  public static DeltaTable read(Object node) {
    if (!(node instanceof DataSourceV2Relation)) return null;
    Object table = ((DataSourceV2Relation) node).table();
    if (!table.getClass().getSimpleName().equals("ChangelogTable")) return null;
    try {
      Object found = table.getClass().getMethod("changelog", new Class[0]).invoke(table, new Object[0]);
      Object handler = Proxy.isProxyClass(found.getClass()) ? Proxy.getInvocationHandler(found) : null;
      return handler instanceof Changes ? ((Changes) handler).feed : null;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** The rows are as they were asked for: Spark has nothing to take out of them, and nothing to pair. */
  public Object invoke(Object proxy, Method method, Object[] arguments) {
    String name = method.getName();
    if (name.equals("name") || name.equals("toString")) return feed.name();
    if (name.equals("columns")) return feed.columns();
    if (name.startsWith("contains") || name.equals("representsUpdateAsDeleteAndInsert")) return Boolean.FALSE;
    if (name.equals("rowId")) return new NamedReference[0];
    if (name.equals("equals")) return Boolean.valueOf(proxy == arguments[0]);
    if (name.equals("hashCode")) return Integer.valueOf(System.identityHashCode(proxy));
    // Only a stream asks for a scan.
    if (name.equals("newScanBuilder")) return Python.ask("refuse to stream changes", new Object[] {feed.name()});
    throw new UnsupportedOperationException("changes of " + feed.name() + ": " + name);
  }
}
