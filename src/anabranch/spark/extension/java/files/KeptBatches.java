package anabranch;

import java.util.IdentityHashMap;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LogicalRDD;

/**
 * Rows that a plan takes from outside, such as the batch of a stream, evaluated once and kept while the plan is used.
 *
 * A batch may stand in the plan several times, and Spark would compute it for each of them. Rows of a checkpoint are never computed
 * again: a job that does not find them fails.
 */
public final class KeptBatches extends scala.runtime.AbstractPartialFunction {
  private final org.apache.spark.sql.classic.SparkSession session;
  /** The kept rows, by the RDD that made them. */
  private final IdentityHashMap kept = new IdentityHashMap();
  private LogicalPlan plan;

  private KeptBatches(org.apache.spark.sql.classic.SparkSession session) {
    this.session = session;
  }

  /** The batches of a frame; null if it has none. */
  public static KeptBatches of(org.apache.spark.sql.classic.Dataset frame) {
    KeptBatches batches = new KeptBatches((org.apache.spark.sql.classic.SparkSession) frame.sparkSession());
    batches.plan = (LogicalPlan) frame.queryExecution().analyzed().transformUp(batches);
    return batches.kept.isEmpty() ? null : batches;
  }

  /** The frame, with kept rows in place of those from outside. */
  public org.apache.spark.sql.classic.Dataset rows() {
    return org.apache.spark.sql.classic.Dataset.ofRows(session, plan);
  }

  /** Frees the memory of the rows. */
  public void letGo() {
    for (Iterator rows = kept.values().iterator(); rows.hasNext();) KeptRows.freeCheckpoint(session, (LogicalPlan) rows.next());
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof LogicalRDD && !PlanFunctions.isCheckpoint((LogicalPlan) node) && !((LogicalRDD) node).isStreaming();
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    LogicalRDD batch = (LogicalRDD) node;
    LogicalPlan rows = (LogicalPlan) kept.get(batch.rdd());
    if (rows == null) {
      rows = ((org.apache.spark.sql.classic.Dataset) org.apache.spark.sql.classic.Dataset.ofRows(session, batch).localCheckpoint(true))
          .logicalPlan();
      kept.put(batch.rdd(), rows);
    }
    return rows.output().equals(batch.output()) ? rows : PlanFunctions.under(rows, batch.output());
  }
}
