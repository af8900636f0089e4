package anabranch;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.MonotonicallyIncreasingID;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.util.AccumulatorV2;

/**
 * Observations (`df.observe`) of rows that a statement has cached.
 *
 * Spark completes an observation when a query ends whose own plan has it. The plan over cached rows does not have it, so a program
 * that waits for the observation would never continue.
 */
public final class Observations extends scala.runtime.AbstractFunction0 {
  private Observations() {}

  /** Ends a query, with the metrics that it has so far. */
  public static void finish(QueryExecution execution) {
    if (observes(execution.analyzed()))
      SQLExecution$.MODULE$.withNewExecutionId(execution, scala.Option.apply("anabranch observed"), new Observations());
  }

  /**
   * How many rows have passed the filter by `COUNTED` (`cached_rows.py`) when the plan ran.
   *
   * @return null for a plan without one
   */
  public static Long counted(SparkPlan plan) {
    if (plan instanceof AdaptiveSparkPlanExec) return counted(((AdaptiveSparkPlanExec) plan).executedPlan());
    if (plan instanceof QueryStageExec) return counted(((QueryStageExec) plan).plan());
    if (plan instanceof FilterExec && isCounting(((FilterExec) plan).condition()))
      return (Long) ((AccumulatorV2) plan.metrics().apply("numOutputRows")).value();
    for (int i = 0; i < plan.children().size(); i++) {
      Long count = counted((SparkPlan) plan.children().apply(i));
      if (count != null) return count;
    }
    return null;
  }

  private static boolean isCounting(Expression condition) {
    return condition instanceof GreaterThanOrEqual && ((GreaterThanOrEqual) condition).left() instanceof MonotonicallyIncreasingID;
  }

  private static boolean observes(LogicalPlan plan) {
    if (plan instanceof CollectMetrics) return true;
    for (int i = 0; i < plan.children().size(); i++) if (observes((LogicalPlan) plan.children().apply(i))) return true;
    return false;
  }

  public Object apply() {
    return null;
  }
}
