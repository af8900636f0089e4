package delta;

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

/** Statements that change rows through a temporary view or a DataFrame over a table: made ones of the table itself. */
public final class Views {
  private final LogicalPlan statement;
  private final Map columns = new HashMap();
  private Expression condition = null;

  private Views(LogicalPlan statement) {
    this.statement = statement;
  }

  /** Whether a table of ours is in there. */
  public static boolean reads(LogicalPlan target) {
    scala.collection.immutable.Seq leaves = target.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      if (Leaves.unversioned(leaves.apply(i)) != null || Leaves.isTable(leaves.apply(i))) return true;
    }
    return false;
  }

  /** Whether it is one table, under whatever name, with nothing between. */
  public static boolean isPlain(LogicalPlan target) {
    LogicalPlan inner = target;
    while (inner instanceof SubqueryAlias) inner = ((SubqueryAlias) inner).child();
    return inner.children().isEmpty();
  }

  /** The statement over the table itself. What is more than rows and columns of one table is refused. */
  public static LogicalPlan tableOf(LogicalPlan statement) {
    return new Views(statement).changed();
  }

  private LogicalPlan changed() {
    LogicalPlan leaf = leafOf(RowChanges.target(statement));
    LogicalPlan changed = statement;
    if (!columns.isEmpty()) {
      // Of subqueries only what names the view from inside them: one over the same view has columns of the same ids.
      changed = (LogicalPlan) changed.transformExpressions(new Columns(columns));
      changed = (LogicalPlan) changed.transformAllExpressionsWithSubqueries(new OuterColumns(columns));
    }
    changed = with(changed, 0, leaf);
    if (condition == null) return changed;
    if (changed instanceof DeleteFromTable) return with(changed, 1, both(condition, ((DeleteFromTable) changed).condition()));
    if (changed instanceof MergeIntoTable) return (LogicalPlan) Python.ask("refuse to change rows shown", new Object[] {statement.nodeName()});
    scala.Option given = ((UpdateTable) changed).condition();
    return with(changed, 2, scala.Option.apply(given.isEmpty() ? condition : both(condition, (Expression) given.get())));
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
    if (Leaves.isTable(plan) || Leaves.unversioned(plan) != null) return plan;
    return refuse("it is more than rows and columns of one table: " + plan.nodeName());
  }

  /** A view of SQL casts each column to the type that it had when the view was made; columns of type CHAR are padded. */
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
    Python.ask("refuse to change", new Object[] {statement.nodeName(), problem});
    return null;
  }

  private static Expression both(Expression one, Expression other) {
    return new org.apache.spark.sql.catalyst.expressions.And(one, other);
  }

  private static LogicalPlan with(LogicalPlan statement, int place, Object value) {
    Object[] arguments = new Object[statement.productArity()];
    for (int i = 0; i < arguments.length; i++) arguments[i] = i == place ? value : statement.productElement(i);
    return (LogicalPlan) statement.makeCopy(arguments);
  }

  /** Puts what a column of the view is in its place. */
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

  /** The same for columns that a subquery takes from around it. */
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
