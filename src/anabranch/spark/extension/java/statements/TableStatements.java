package anabranch;

import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.AlterColumnSpec;
import org.apache.spark.sql.catalyst.plans.logical.AlterColumns;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoDir;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ShowPartitions;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;

/** Statements about a table of ours, and not about its rows, that Spark would refuse or execute for files of its own. */
public final class TableStatements {
  private static final java.util.Set NAMES = new java.util.HashSet(java.util.Arrays.asList(new String[] {
      "ShowPartitions", "AnalyzeTable", "AnalyzeColumn", "RepairTable", "TruncatePartition", "ShowCreateTable", "DescribeRelationJsonCommand"}));

  private TableStatements() {}

  /**
   * Whether the statement is one of these, and Spark has resolved its part of it. CREATE TABLE LIKE, which Spark passes to the catalog
   * only from 4.2 on, is always included; Python decides about that.
   */
  public static boolean isOurs(LogicalPlan plan) {
    if (plan instanceof CreateTableLikeCommand) return true;
    if (plan instanceof InsertIntoDir) return writesOurFormat((InsertIntoDir) plan);
    // Python refuses a constraint for a view: Spark would look for the view's files in its catalog.
    LogicalPlan checked = checked(plan);
    if (checked != null && DeltaRelations.unversioned(checked) != null) return true;
    boolean alters = plan instanceof AlterColumns;
    if (!alters && !NAMES.contains(plan.nodeName())) return false;
    if (tableOf(plan) == null) return false;
    return !alters || plan.resolved() && forbidsNull((AlterColumns) plan);
  }

  private static boolean writesOurFormat(InsertIntoDir plan) {
    return plan.provider().isDefined() && "delta".equalsIgnoreCase((String) plan.provider().get());
  }

  /** The table that the statement is about; null if it is none of ours. */
  public static DeltaTable tableOf(LogicalPlan plan) {
    if (plan.children().isEmpty() || !(plan.children().apply(0) instanceof ResolvedTable)) return null;
    Object table = ((ResolvedTable) plan.children().apply(0)).table();
    return table instanceof DeltaTable ? (DeltaTable) table : null;
  }

  /** The leaf of the table that gets a new CHECK constraint, for which Spark's plan has a query; null for other statements. */
  public static LogicalPlan checked(LogicalPlan plan) {
    return plan.nodeName().equals("AddCheckConstraint") ? PlanFunctions.target(plan) : null;
  }

  /** The PARTITION clause of SHOW PARTITIONS as JSON, values by column; null without. */
  public static String partition(ShowPartitions plan) {
    if (plan.pattern().isEmpty()) return null;
    Object spec = TableChanges.optionalValue(plan.pattern().get(), "spec");
    Object values = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) spec);
    return Json.text(values);
  }

  private static boolean forbidsNull(AlterColumns plan) {
    for (int i = 0; i < plan.specs().size(); i++) {
      scala.Option nullable = ((AlterColumnSpec) plan.specs().apply(i)).newNullability();
      if (nullable.isDefined() && Boolean.FALSE.equals(nullable.get())) return true;
    }
    return false;
  }
}
