package anabranch;

import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;

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

  private static boolean observes(LogicalPlan plan) {
    if (plan instanceof CollectMetrics) return true;
    for (int i = 0; i < plan.children().size(); i++) if (observes((LogicalPlan) plan.children().apply(i))) return true;
    return false;
  }

  public Object apply() {
    return null;
  }
}
