package anabranch;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * The changelog that our catalog returns for `CHANGES FROM`. Spark has the interface since 4.2, so a proxy implements it. It only
 * holds what replaces the relation (ReplaceTableReads) before Spark scans it: the table of changes or, for a stream, the table and
 * which changes are wanted.
 */
public class DeltaChangelog implements InvocationHandler {
  public final DeltaTable feed;
  public final DeltaTable table;
  /** Spark's `ChangelogContext`. */
  public final Object context;

  private DeltaChangelog(DeltaTable feed, DeltaTable table, Object context) {
    this.feed = feed;
    this.table = table;
    this.context = context;
  }

  public static Object of(DeltaTable feed, DeltaTable table, Object context) {
    try {
      Class type = Class.forName("org.apache.spark.sql.connector.catalog.Changelog");
      return Proxy.newProxyInstance(type.getClassLoader(), new Class[] {type}, new DeltaChangelog(feed, table, context));
    } catch (ClassNotFoundException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Ours of such a relation, of a batch read or of a stream; null for other nodes. */
  public static DeltaChangelog read(Object node) {
    boolean isStream = node instanceof StreamingRelationV2;
    if (!isStream && !(node instanceof DataSourceV2Relation)) return null;
    Object table = isStream ? ((StreamingRelationV2) node).table() : ((DataSourceV2Relation) node).table();
    if (!table.getClass().getSimpleName().equals("ChangelogTable")) return null;
    try {
      Object changelog = table.getClass().getMethod("changelog", new Class[0]).invoke(table, new Object[0]);
      Object handler = Proxy.isProxyClass(changelog.getClass()) ? Proxy.getInvocationHandler(changelog) : null;
      return handler instanceof DeltaChangelog ? (DeltaChangelog) handler : null;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** The rows are complete as they are: Spark must remove none of them, and pair none. */
  public Object invoke(Object proxy, Method method, Object[] arguments) {
    String name = method.getName();
    if (name.equals("name") || name.equals("toString")) return feed.name();
    if (name.equals("columns")) return feed.columns();
    if (name.startsWith("contains") || name.equals("representsUpdateAsDeleteAndInsert")) return Boolean.FALSE;
    if (name.equals("rowId")) return new NamedReference[0];
    if (name.equals("equals")) return Boolean.valueOf(proxy == arguments[0]);
    if (name.equals("hashCode")) return Integer.valueOf(System.identityHashCode(proxy));
    throw new UnsupportedOperationException("changes of " + feed.name() + ": " + name);
  }
}
