package delta;

import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/** Our tables as leaves of Spark's plans. */
public final class Leaves {
  private Leaves() {}

  /** Whether the node is a table of ours as the catalog gives it. */
  public static boolean isTable(Object node) {
    return node instanceof DataSourceV2Relation && ((DataSourceV2Relation) node).table() instanceof DeltaTable;
  }

  public static DeltaTable tableOf(Object relation) {
    return (DeltaTable) ((DataSourceV2Relation) relation).table();
  }

  /** Spark's own relation over the files of a table, with the very attributes that the plan has for its columns. */
  public static LogicalPlan read(Object session, DataSourceV2Relation node) {
    DeltaTable table = tableOf(node);
    if (table.schema.isEmpty()) Python.ask("refuse to read", new Object[] {table});
    HadoopFsRelation relation = new HadoopFsRelation(new TableFiles(table), table.partitionSchema(), table.dataSchema(),
        scala.Option.empty(), new TableFormat(table.tracksRows()), (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty(),
        (org.apache.spark.sql.classic.SparkSession) session);
    LogicalRelation leaf = org.apache.spark.sql.execution.datasources.LogicalRelation$.MODULE$.apply(relation, false);
    // By its entry Spark finds whose cached facts to drop, for `catalog.refreshTable`.
    return copied(leaf, new Object[] {null, node.output(), scala.Option.apply(table.catalogTable)});
  }

  /** The leaf as one of a stream. */
  public static LogicalPlan streamed(LogicalRelation leaf) {
    return copied(leaf, new Object[] {null, null, null, Boolean.TRUE});
  }

  /** The table whose version is still to be chosen, or null. */
  public static DeltaTable unversioned(Object node) {
    if (!(node instanceof LogicalRelation) || !(((LogicalRelation) node).relation() instanceof HadoopFsRelation)) return null;
    Object location = ((HadoopFsRelation) ((LogicalRelation) node).relation()).location();
    return location instanceof TableFiles ? ((TableFiles) location).table : null;
  }

  /** `leaf.copy(…)` with the arguments given, null for as it was, whatever others this version of Spark has. */
  private static LogicalRelation copied(LogicalRelation leaf, Object[] given) {
    try {
      Method[] methods = LogicalRelation.class.getMethods();
      for (int i = 0; i < methods.length; i++) {
        if (!methods[i].getName().equals("copy")) continue;
        Object[] arguments = new Object[methods[i].getParameterTypes().length];
        for (int k = 0; k < arguments.length; k++) {
          arguments[k] = k < given.length && given[k] != null ? given[k]
              : LogicalRelation.class.getMethod("copy$default$" + (k + 1), new Class[0]).invoke(leaf, new Object[0]);
        }
        return (LogicalRelation) methods[i].invoke(leaf, arguments);
      }
      throw new NoSuchMethodException("LogicalRelation.copy");
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
