package anabranch;

import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute$;
import org.apache.spark.sql.catalyst.plans.logical.DescribeRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;

/**
 * SHOW TABLES and SHOW VIEWS with names alone, as in Hive, for clients that read the first column: Spark's is the schema. DESCRIBE
 * without the section on clustering columns, which such clients take for more columns: Hive has only one on partitions.
 */
public final class HiveListings {
  private static final String SETTING = "spark.anabranch.hiveListings";

  private HiveListings() {}

  /** The parsed statement, or its names alone if the session's setting says so. */
  public static Object inHiveForm(Object plan) {
    if (!(plan instanceof LogicalPlan)) return plan;
    String column = nameColumn(((LogicalPlan) plan).nodeName());
    if (column == null || !isSet()) return plan;
    Object name = UnresolvedAttribute$.MODULE$.quoted(column);
    Seq columns = scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(name)).toList();
    return new Project(columns, (LogicalPlan) plan);
  }

  /** The resolved statement; if it describes a clustered table and the session's setting says so, without clustering columns. */
  static LogicalPlan described(LogicalPlan plan) {
    if (!(plan instanceof DescribeRelation) || ((DescribeRelation) plan).isExtended()) return plan;
    DeltaTable table = TableStatements.tableOf(plan);
    if (table == null || table.clusteringColumns.length == 0 || !isSet()) return plan;
    ResolvedTable found = (ResolvedTable) plan.children().apply(0);
    // The two tables are equal, so the children would not be taken for new ones.
    Object[] parts = new Object[plan.productArity()];
    for (int i = 1; i < parts.length; i++) parts[i] = plan.productElement(i);
    parts[0] = new ResolvedTable(found.catalog(), found.identifier(), table.unclustered(), found.outputAttributes());
    return (LogicalPlan) plan.makeCopy(parts);
  }

  private static boolean isSet() {
    return isTrue(SQLConf.get().getConfString(SETTING, "false"));
  }

  private static boolean isTrue(String value) {
    String word = value.trim();
    if (word.equalsIgnoreCase("true") || word.equalsIgnoreCase("false")) return Boolean.parseBoolean(word);
    throw new IllegalArgumentException("Option " + SETTING + " = '" + value + "': it is true or false.");
  }

  private static String nameColumn(String statement) {
    if (statement.equals("ShowTables")) return "tableName";
    return statement.equals("ShowViews") ? "viewName" : null;
  }
}
