package delta;

import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;

/** SHOW TABLES and SHOW VIEWS with names alone, as in Hive, for clients that read the first column: Spark's is the schema. */
public final class Listings {
  private static final String SETTING = "spark.anabranch.hiveListings";

  private Listings() {}

  /** The parsed statement, or its names alone if the session's setting says so. */
  public static Object inHiveForm(Object plan) {
    if (!(plan instanceof LogicalPlan)) return plan;
    String column = nameColumn(((LogicalPlan) plan).nodeName());
    if (column == null || !isTrue(SQLConf.get().getConfString(SETTING, "false"))) return plan;
    Object name = UnresolvedAttribute$.MODULE$.quoted(column);
    Seq columns = scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(name)).toList();
    return new Project(columns, (LogicalPlan) plan);
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
