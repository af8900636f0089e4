package anabranch;

import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Seq;

/** Our tables as leaves of Spark's plans. */
public final class DeltaRelations {
  private DeltaRelations() {}

  /** Whether the node is a table of ours as the catalog returns it. */
  public static boolean isTable(Object node) {
    return node instanceof DataSourceV2Relation && ((DataSourceV2Relation) node).table() instanceof DeltaTable;
  }

  public static DeltaTable tableOf(Object relation) {
    return (DeltaTable) ((DataSourceV2Relation) relation).table();
  }

  /** Spark's own relation over the files of a table, with the attributes that the plan has for its columns. */
  public static LogicalPlan read(Object session, DataSourceV2Relation node) {
    DeltaTable table = tableOf(node);
    if (table.schema.isEmpty()) PythonCallbacks.refuseTableWithoutColumns(table);
    LogicalRelation leaf = org.apache.spark.sql.execution.datasources.LogicalRelation$.MODULE$.apply(relation(session, table), false);
    // `catalog.refreshTable` finds cached data of the table by this entry.
    return copied(leaf, new Object[] {null, node.output(), scala.Option.apply(table.catalogTable)});
  }

  private static HadoopFsRelation relation(Object session, DeltaTable table) {
    return new HadoopFsRelation(new TableFiles(table), table.partitionSchema(), table.dataSchema(),
        scala.Option.empty(), new TableFormat(table.tracksRows()), (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty(),
        (org.apache.spark.sql.classic.SparkSession) session);
  }

  /** The leaf of a table without a version, for the rows that the transaction of that key sees. */
  static LogicalPlan inTransaction(Object session, LogicalRelation leaf, String key) {
    return copied(leaf, new Object[] {relation(session, unversioned(leaf).inTransaction(key))});
  }

  /** The leaf, marked as streaming. */
  public static LogicalPlan streamed(LogicalRelation leaf) {
    return copied(leaf, new Object[] {null, null, null, Boolean.TRUE});
  }

  /** The table of a leaf whose version is not chosen yet; null for others. */
  public static DeltaTable unversioned(Object node) {
    if (!(node instanceof LogicalRelation) || !(((LogicalRelation) node).relation() instanceof HadoopFsRelation)) return null;
    Object location = ((HadoopFsRelation) ((LogicalRelation) node).relation()).location();
    return location instanceof TableFiles ? ((TableFiles) location).table : null;
  }

  /** Whether a leaf of the plan is the table in that folder, of which no version is chosen yet. */
  static boolean reads(LogicalPlan plan, String path) {
    Seq leaves = plan.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      DeltaTable table = unversioned(leaves.apply(i));
      if (table != null && table.path.equals(path)) return true;
    }
    return false;
  }

  /** `leaf.copy(…)` with these first arguments; null and further ones, which differ by version, stay as they are. */
  private static LogicalRelation copied(LogicalRelation leaf, Object[] first) {
    try {
      Method[] methods = LogicalRelation.class.getMethods();
      for (int i = 0; i < methods.length; i++) {
        if (!methods[i].getName().equals("copy")) continue;
        Object[] arguments = new Object[methods[i].getParameterTypes().length];
        for (int k = 0; k < arguments.length; k++) {
          arguments[k] = k < first.length && first[k] != null ? first[k]
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
