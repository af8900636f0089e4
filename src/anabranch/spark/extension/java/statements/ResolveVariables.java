package anabranch;

import java.util.IdentityHashMap;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.VariableReference;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Variables in the values and conditions of UPDATE and MERGE, where Spark's analyzer resolves names as columns only. */
public final class ResolveVariables {
  private ResolveVariables() {}

  /** An UPDATE or MERGE with variables for names that neither its target nor its source has, both resolved. */
  public static LogicalPlan set(Object session, LogicalPlan statement) {
    LogicalPlan target = RowChangeStatements.target(statement);
    LogicalPlan source = statement instanceof MergeIntoTable ? ((MergeIntoTable) statement).sourceTable() : target;
    return (LogicalPlan) statement.transformExpressions(new BesideKeys(new Named(session, target, source)));
  }

  /** Replaces names in values and conditions, not in assigned columns: an assignment is visited before its key. */
  public static class BesideKeys extends scala.runtime.AbstractPartialFunction {
    private final Named named;
    private final IdentityHashMap keys = new IdentityHashMap();

    public BesideKeys(Named named) {
      this.named = named;
    }

    public boolean isDefinedAt(Object node) {
      if (node instanceof Assignment) keys.put(((Assignment) node).key(), node);
      return named.isDefinedAt(node) && !keys.containsKey(node);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? named.applyOrElse(node, otherwise) : otherwise.apply(node);
    }
  }

  /** Replaces names by variables. */
  public static class Named extends scala.runtime.AbstractPartialFunction {
    private final Object session;
    private final LogicalPlan target;
    private final LogicalPlan source;

    public Named(Object session, LogicalPlan target, LogicalPlan source) {
      this.session = session;
      this.target = target;
      this.source = source;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof UnresolvedAttribute;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Seq parts = ((UnresolvedAttribute) node).nameParts();
      if (knows(target, parts) || knows(source, parts)) return node;
      Expression variable = variable((UnresolvedAttribute) node);
      return variable == null ? node : variable;
    }

    /** Whether the name is a column, or an ambiguous one. */
    private static boolean knows(LogicalPlan plan, Seq parts) {
      try {
        return plan.resolve(parts, SQLConf.get().resolver()).isDefined();
      } catch (Exception error) {
        return true;
      }
    }

    /** The variable of that name, or a field of one, resolved in a query without columns; null if there is none. */
    private Expression variable(UnresolvedAttribute name) {
      Seq none = (Seq) Nil$.MODULE$;
      Alias called = new Alias(name, "v", NamedExpression$.MODULE$.newExprId(), none, Option.empty(), none);
      LogicalPlan query = new Project((Seq) Nil$.MODULE$.$colon$colon(called), new OneRowRelation());
      try {
        LogicalPlan analyzed = PlanFunctions.analyzed(session, query);
        Expression value = ((Alias) ((Project) analyzed).projectList().apply(0)).child();
        return value.resolved() && value.collectLeaves().apply(0) instanceof VariableReference ? value : null;
      } catch (Exception error) {
        return null;
      }
    }
  }
}
