package anabranch;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.columnar.InMemoryRelation$;
import org.apache.spark.storage.StorageLevel$;
import scala.Option;

/**
 * Rows that Spark keeps while a statement runs, as it keeps those of `persist`, but not in the cache that all sessions share.
 *
 * What is in that cache is taken out and put back whenever a table below it changes, also by other threads. A frame that
 * is let go of in between stays there for ever.
 */
public final class KeptRows {
  private final org.apache.spark.sql.classic.Dataset rows;
  private final org.apache.spark.sql.classic.Dataset frame;
  private final QueryExecution computing;

  public KeptRows(org.apache.spark.sql.classic.Dataset frame) {
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) frame.sparkSession();
    LogicalPlan plan = frame.queryExecution().analyzed();
    this.frame = frame;
    this.computing = session.sessionState().executePlan(plan, CommandExecutionMode$.MODULE$.SKIP());
    InMemoryRelation relation = InMemoryRelation$.MODULE$.apply(StorageLevel$.MODULE$.MEMORY_AND_DISK(), computing, Option.empty());
    this.rows = org.apache.spark.sql.classic.Dataset.ofRows(session, (LogicalPlan) relation.withOutput(plan.output()));
  }

  /** Computed when they are first needed. Their columns are those of the frame. */
  public org.apache.spark.sql.classic.Dataset rows() {
    return rows;
  }

  /**
   * Frees the memory, and completes what observes the frame.
   *
   * @param counted whether with the numbers of the rows that were computed; else with those of none, as MERGE of delta-spark does
   */
  public void letGo(boolean counted) {
    ((InMemoryRelation) rows.queryExecution().analyzed()).cacheBuilder().clearCache(false);
    Observations.finish(counted ? computing : frame.queryExecution());
  }

  /**
   * Has Spark compute the rows of a lazy checkpoint again where an executor has lost them, as for a cache.
   *
   * A local checkpoint is what Spark has to keep rows as they are. An own serializer of its cache would have to be on executors.
   */
  public static void makeRepeatable(org.apache.spark.sql.classic.Dataset checkpoint) {
    ((LogicalRDD) checkpoint.queryExecution().analyzed()).rdd().checkpointData_$eq(Option.empty());
  }

  /** Frees the memory of a checkpoint now; Spark frees it once it finds that no object refers to the rows. */
  public static void freeCheckpoint(org.apache.spark.sql.classic.Dataset checkpoint) {
    freeCheckpoint((org.apache.spark.sql.classic.SparkSession) checkpoint.sparkSession(), checkpoint.queryExecution().analyzed());
  }

  static void freeCheckpoint(org.apache.spark.sql.classic.SparkSession session, LogicalPlan checkpoint) {
    // `unpersist` of the RDD would warn that it cannot be computed again.
    session.sparkContext().unpersistRDD(((LogicalRDD) checkpoint).rdd().id(), false);
  }
}
