package anabranch;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.View;

/** Turns statements that change rows through a temporary view or a DataFrame into statements about the table itself. */
public final class ReplaceTargetViews {
  private final LogicalPlan statement;
  private final Map columns = new HashMap();
  private Expression condition = null;

  private ReplaceTargetViews(LogicalPlan statement) {
    this.statement = statement;
  }

  /** Whether the plan reads a table of ours. */
  public static boolean reads(LogicalPlan target) {
    scala.collection.immutable.Seq leaves = target.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      if (DeltaRelations.unversioned(leaves.apply(i)) != null || DeltaRelations.isTable(leaves.apply(i))) return true;
    }
    return false;
  }

  /** Whether the target is one table, under any alias, without operators above it. */
  public static boolean isPlain(LogicalPlan target) {
    LogicalPlan inner = target;
    while (inner instanceof SubqueryAlias) inner = ((SubqueryAlias) inner).child();
    return inner.children().isEmpty();
  }

  /** The statement about the table itself. ReplaceTargetViews with more than rows and columns of one table are refused. */
  public static LogicalPlan tableOf(LogicalPlan statement) {
    return new ReplaceTargetViews(statement).changed();
  }

  private LogicalPlan changed() {
    LogicalPlan leaf = leafOf(RowChangeStatements.target(statement));
    LogicalPlan changed = statement;
    if (!columns.isEmpty()) {
      // In subqueries only outer references are replaced: a subquery over the same view has columns with the same ids.
      changed = (LogicalPlan) changed.transformExpressions(new Columns(columns));
      changed = (LogicalPlan) changed.transformAllExpressionsWithSubqueries(new OuterColumns(columns));
    }
    changed = with(changed, 0, leaf);
    if (condition == null) return changed;
    if (changed instanceof DeleteFromTable) return with(changed, 1, both(condition, ((DeleteFromTable) changed).condition()));
    if (changed instanceof MergeIntoTable) PythonCallbacks.refuseFilteredTarget(statement.nodeName());
    scala.Option updateCondition = ((UpdateTable) changed).condition();
    return with(changed, 2, scala.Option.apply(updateCondition.isEmpty() ? condition : both(condition, (Expression) updateCondition.get())));
  }

  private LogicalPlan leafOf(LogicalPlan plan) {
    if (plan instanceof SubqueryAlias) return leafOf(((SubqueryAlias) plan).child());
    if (plan instanceof View) {
      if (!((View) plan).isTempView()) return refuse("it is a view of the catalog");
      return leafOf(((View) plan).child());
    }
    if (plan instanceof Project) {
      Project project = (Project) plan;
      LogicalPlan leaf = leafOf(project.child());
      for (int i = 0; i < project.projectList().size(); i++) {
        Object column = project.projectList().apply(i);
        if (column instanceof Alias) columns.put(((Alias) column).exprId(), ofTable(plain(((Alias) column).child())));
      }
      return leaf;
    }
    if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Filter) {
      org.apache.spark.sql.catalyst.plans.logical.Filter filter = (org.apache.spark.sql.catalyst.plans.logical.Filter) plan;
      LogicalPlan leaf = leafOf(filter.child());
      Expression kept = ofTable(filter.condition());
      condition = condition == null ? kept : both(condition, kept);
      return leaf;
    }
    if (DeltaRelations.isTable(plan) || DeltaRelations.unversioned(plan) != null) return plan;
    return refuse("it is more than rows and columns of one table: " + plan.nodeName());
  }

  /** The column without the cast of a SQL view to its type when the view was made, and without the padding of CHAR. */
  private static Expression plain(Expression column) {
    if (column instanceof StaticInvoke && ((StaticInvoke) column).functionName().equals("readSidePadding")) {
      return plain((Expression) ((StaticInvoke) column).arguments().apply(0));
    }
    boolean isIdle = column instanceof Cast && ((Cast) column).child().dataType().equals(column.dataType());
    return isIdle ? plain(((Cast) column).child()) : column;
  }

  private Expression ofTable(Expression expression) {
    return (Expression) expression.transform(new Columns(columns));
  }

  private LogicalPlan refuse(String problem) {
    PythonCallbacks.refuseTarget(statement.nodeName(), problem);
    return null;
  }

  private static Expression both(Expression one, Expression other) {
    return new org.apache.spark.sql.catalyst.expressions.And(one, other);
  }

  private static LogicalPlan with(LogicalPlan statement, int index, Object value) {
    Object[] arguments = new Object[statement.productArity()];
    for (int i = 0; i < arguments.length; i++) arguments[i] = i == index ? value : statement.productElement(i);
    return (LogicalPlan) statement.makeCopy(arguments);
  }

  /** Replaces columns of the view by their expressions. */
  public static class Columns extends scala.runtime.AbstractPartialFunction {
    private final Map columns;

    public Columns(Map columns) {
      this.columns = columns;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Attribute && columns.containsKey(((Attribute) node).exprId());
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? columns.get(((Attribute) node).exprId()) : otherwise.apply(node);
    }
  }

  /** The same for outer references in a subquery. */
  public static class OuterColumns extends scala.runtime.AbstractPartialFunction {
    private final Map columns;

    public OuterColumns(Map columns) {
      this.columns = columns;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof OuterReference && columns.containsKey(((OuterReference) node).e().exprId());
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Expression column = (Expression) columns.get(((OuterReference) node).e().exprId());
      return column.transform(new Outer());
    }
  }

  /** Columns as seen from inside a subquery. */
  public static class Outer extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof Attribute;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? new OuterReference((Attribute) node) : otherwise.apply(node);
    }
  }
}
