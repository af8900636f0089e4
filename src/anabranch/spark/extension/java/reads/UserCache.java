package anabranch;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.collection.immutable.Seq;

/** Rows that Spark has cached for the user. */
public final class UserCache {
  private UserCache() {}

  /** The plan with cached rows instead of the plans that compute them; the plan itself if nothing is cached. */
  public static LogicalPlan used(Object session, LogicalPlan plan) {
    org.apache.spark.sql.classic.SparkSession spark = (org.apache.spark.sql.classic.SparkSession) session;
    if (spark.sharedState().cacheManager().isEmpty()) return plan;
    return spark.sessionState().executePlan(plan, org.apache.spark.sql.execution.CommandExecutionMode$.MODULE$.SKIP()).withCachedData();
  }

  /** Whether the plan reads cached rows that were computed from the table in that folder. */
  public static boolean readsTable(LogicalPlan plan, String path) {
    if (keepsRowsOf(plan, path)) return true;
    Seq nested = plan.subqueriesAll();
    for (int i = 0; i < nested.size(); i++) if (keepsRowsOf((LogicalPlan) nested.apply(i), path)) return true;
    return false;
  }

  private static boolean keepsRowsOf(LogicalPlan plan, String path) {
    Seq leaves = plan.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      if (!(leaves.apply(i) instanceof InMemoryRelation)) continue;
      LogicalPlan kept = ((InMemoryRelation) leaves.apply(i)).cacheBuilder().logicalPlan();
      if (DeltaRelations.reads(kept, path)) return true;
    }
    return false;
  }

  /** Makes cached rows of the table in that folder be read again at their next use. */
  public static void refresh(Object session, String path) {
    org.apache.spark.sql.classic.SparkSession spark = (org.apache.spark.sql.classic.SparkSession) session;
    if (spark.sharedState().cacheManager().isEmpty()) return;
    spark.sharedState().cacheManager().recacheByPath(spark, new Path(path).toString());
  }
}
