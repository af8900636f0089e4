package anabranch;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.ApplyCharTypePadding$;
import org.apache.spark.sql.execution.datasources.CreateTable;
import scala.collection.immutable.Seq;

/**
 * A resolution rule. It replaces our tables in plans by leaves that Spark can read. DELETE, UPDATE, MERGE and writes of a table
 * of ours become a command when Spark has resolved all of their parts: a V1Write has no information whether columns match by
 * name or by position, and no conditions other than filters. Plans without our tables stay as they are.
 */
public class ResolveDeltaTables extends org.apache.spark.sql.catalyst.rules.Rule {
  private final Object session;

  public ResolveDeltaTables(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "anabranch.ResolveDeltaTables";
  }

  public TreeNode apply(TreeNode node) {
    if (!PythonEndpoint.isOpen()) return node;
    TreeNode resolved = resolved(node);
    JobDescriptions.analysed(resolved);
    return resolved;
  }

  private TreeNode resolved(TreeNode node) {
    LogicalPlan plan = HiveListings.described(ResolveTablePaths.checked(session, (LogicalPlan) node));
    if (plan instanceof CreateTableAsSelect) plan = StagedSparkTable.unlessThere((CreateTableAsSelect) plan);
    if (plan instanceof CreateTable && isOurs((CreateTable) plan)) return command(plan);
    CheckTableFormat.check(session, plan);
    if (TableStatements.isOurs(plan)) return command(plan);
    LogicalPlan target = RowChangeStatements.target(plan);
    if (target != null) return rowChange(plan, target);
    LogicalPlan checked = TableStatements.checked(plan);
    LogicalPlan statement = (LogicalPlan) plan.resolveOperatorsUpWithNewOutput(new ReplaceTableReads(session, checked));
    if (checked != null && DeltaRelations.isTable(checked)) {
      // Spark does not resolve subqueries in a constraint, which Python refuses.
      boolean hasSubquery = !plan.subqueriesAll().isEmpty();
      return hasSubquery || statement.resolved() ? command(statement) : statement;
    }
    // Other commands may contain a write that must not run now, as CREATE FLOW does.
    boolean writes = statement instanceof V2WriteCommand || statement instanceof Union || statement instanceof WithCTE;
    return writes ? (TreeNode) statement.resolveOperatorsUp(new FileWriteArguments(this)) : statement;
  }

  /** Replaces writes of our tables: the whole plan, or one of several that share a source. */
  public static final class FileWriteArguments extends scala.runtime.AbstractPartialFunction {
    private final ResolveDeltaTables rule;

    public FileWriteArguments(ResolveDeltaTables rule) {
      this.rule = rule;
    }

    public boolean isDefinedAt(Object node) {
      if (!(node instanceof V2WriteCommand) || !DeltaRelations.isTable(((V2WriteCommand) node).table())) return false;
      if (node instanceof OverwriteByExpression)
        RowChangeStatements.checkMetadata(rule.session, (LogicalPlan) node, (LogicalPlan) (Object) ((V2WriteCommand) node).table(), "replaceWhere");
      return isResolved((LogicalPlan) node);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? rule.command(Pipelines.refreshing((LogicalPlan) node)) : otherwise.apply(node);
    }
  }

  /** The plan for a DELETE, UPDATE or MERGE. */
  private LogicalPlan rowChange(LogicalPlan plan, LogicalPlan target) {
    Object relation = EliminateSubqueryAliases$.MODULE$.apply(target);
    boolean isTable = DeltaRelations.isTable(relation) && !RowChangeStatements.namesMetadata(plan);
    LogicalPlan statement = (LogicalPlan) plan.resolveOperatorsUpWithNewOutput(new ReplaceTableReads(session, isTable ? relation : null));
    if (!isTable && (!target.resolved() || !ReplaceTargetViews.reads(RowChangeStatements.target(statement)))) return statement;
    // In a MERGE it may be the column of the source.
    if (!ReplaceTargetViews.isPlain(target) && !(statement instanceof MergeIntoTable)) RowChangeStatements.checkMetadata(session, statement, target, "view");
    if (statement instanceof MergeIntoTable) {
      if (!((MergeIntoTable) statement).sourceTable().resolved()) return statement;
      statement = padded((MergeIntoTable) statement);
      statement = ResolveVariables.set(session, Placeholders.set((MergeIntoTable) statement, ReplaceTargetViews.isPlain(target)));
      // After this Spark resolves the conditions and values.
      if (isTable) DeltaRelations.tableOf(relation).takesAnySchema = false;
    }
    if (statement instanceof UpdateTable && target.resolved()) statement = ResolveVariables.set(session, statement);
    statement = Placeholders.uncast(statement);
    // Spark's own rule adds `_metadata` to leaves, after everything else is resolved.
    if (!statement.resolved() || RowChangeStatements.lacksMetadata(statement)) return statement;
    LogicalPlan change = RowChangeStatements.checked(isTable ? statement : ReplaceTargetViews.tableOf(statement));
    return command(Pipelines.repeated(session, change));
  }

  /**
   * The statement with padded CHAR columns of the source. Spark pads them after all of its rules, when the statement is a command
   * already, and gives such columns new ids.
   */
  private static LogicalPlan padded(MergeIntoTable merge) {
    LogicalPlan source = merge.sourceTable();
    LogicalPlan padded = (LogicalPlan) ApplyCharTypePadding$.MODULE$.apply(source);
    if (padded == source) return merge;
    LogicalPlan[] children = {merge.targetTable(), padded};
    LogicalPlan statement = (LogicalPlan) merge.withNewChildren(scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList(children)).toSeq());
    Seq pairs = (Seq) source.output().zip(padded.output());
    return (LogicalPlan) statement.rewriteAttrs(AttributeMap$.MODULE$.apply(pairs));
  }

  private LogicalPlan command(LogicalPlan statement) {
    return PythonCallbacks.commandOf(session, statement.nodeName(), RowChangeStatements.withVersion(statement));
  }

  /** Whether the write is resolved: Spark resolves the condition of an overwrite after the query. */
  private static boolean isResolved(LogicalPlan write) {
    if (!((V2WriteCommand) write).query().resolved()) return false;
    return !(write instanceof OverwriteByExpression) || ((OverwriteByExpression) write).deleteExpr().resolved();
  }

  /** Whether it is `saveAsTable` over a table of another format: Spark has dropped that one, and would not pass partitions to the writer. */
  private static boolean isOurs(CreateTable plan) {
    scala.Option provider = plan.tableDesc().provider();
    return provider.isDefined() && "delta".equalsIgnoreCase((String) provider.get()) && plan.query().isDefined()
        && ((LogicalPlan) plan.query().get()).resolved();
  }
}
