package anabranch;

import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.QueryPlanningTracker$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;

/**
 * An optimizer rule that chooses the version of each table that a query reads, when the query runs: so DataFrames and views
 * follow their table. Spark has one tracker for an execution, its subqueries included, which are optimized apart and earlier;
 * by its number all leaves of a table get one version. The list of files that takes the leaf's place is nothing this rule knows.
 */
public class ChooseVersions extends org.apache.spark.sql.catalyst.rules.Rule {
  private static final Map NUMBERS = new WeakHashMap();
  private static long last = 0;

  private final Object session;

  public ChooseVersions(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "anabranch.ChooseVersions";
  }

  public TreeNode apply(TreeNode plan) {
    if (!PythonEndpoint.isOpen()) return plan;
    if (plan instanceof InsertIntoHadoopFsRelationCommand) CheckTableFormat.checkFolder(session, (InsertIntoHadoopFsRelationCommand) plan);
    LogicalPlan aggregated = (LogicalPlan) plan;
    if (AggregateFromLog.isWanted()) aggregated = (LogicalPlan) aggregated.transformUp(new AggregateFromLog(session));
    return aggregated.transformUp(new Choose(session, null, null));
  }

  /** The plan with a version for each table, also in subqueries, for the statement of that number. */
  public static LogicalPlan chosen(Object session, LogicalPlan plan, Long number) {
    return (LogicalPlan) plan.transformUpWithSubqueries(new Choose(session, number, null));
  }

  /** A number that no other execution has. */
  public static synchronized long next() {
    return ++last;
  }

  static synchronized Long numberOfExecution() {
    scala.Option tracker = QueryPlanningTracker$.MODULE$.get();
    if (tracker.isEmpty()) return Long.valueOf(next());
    Long number = (Long) NUMBERS.get(tracker.get());
    if (number == null) {
      number = Long.valueOf(next());
      NUMBERS.put(tracker.get(), number);
    }
    return number;
  }

  /** Replaces tables by the rows of one version. */
  public static class Choose extends scala.runtime.AbstractPartialFunction {
    private final Object session;
    private final Long statement;
    private final Object except;

    /** @param except the leaf of the table that the statement changes, or null */
    public Choose(Object session, Long statement, Object except) {
      this.session = session;
      this.statement = statement;
      this.except = except;
    }

    public boolean isDefinedAt(Object node) {
      return node != except && DeltaRelations.unversioned(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      DeltaTable table = DeltaRelations.unversioned(node);
      LogicalPlan leaf = (LogicalPlan) node;
      Long number = statement == null ? numberOfExecution() : statement;
      boolean withMetadata = leaf.output().size() > table.schema.length();
      LogicalPlan rows = PythonCallbacks.rowsOfTable(session, table, number, withMetadata);
      return PlanFunctions.under(PlanFunctions.finished(rows), leaf.output());
    }
  }
}
