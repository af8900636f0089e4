package delta;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode$;
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
  private KeptRows() {}

  /** The rows of the frame, computed when they are first needed. Its columns stay what they are. */
  public static org.apache.spark.sql.classic.Dataset of(org.apache.spark.sql.classic.Dataset frame) {
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) frame.sparkSession();
    LogicalPlan plan = frame.queryExecution().analyzed();
    InMemoryRelation relation = InMemoryRelation$.MODULE$.apply(StorageLevel$.MODULE$.MEMORY_AND_DISK(),
        session.sessionState().executePlan(plan, CommandExecutionMode$.MODULE$.SKIP()), Option.empty());
    return org.apache.spark.sql.classic.Dataset.ofRows(session, (LogicalPlan) relation.withOutput(plan.output()));
  }

  /** Frees the memory. */
  public static void letGo(org.apache.spark.sql.classic.Dataset rows) {
    ((InMemoryRelation) rows.queryExecution().analyzed()).cacheBuilder().clearCache(false);
  }
}
