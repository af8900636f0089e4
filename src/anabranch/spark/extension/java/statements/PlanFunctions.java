package anabranch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.optimizer.EliminateResolvedHint$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.optimizer.RewriteWithExpression$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Small changes of plans. */
public final class PlanFunctions {
  private PlanFunctions() {}

  /** The expression as text, its columns without the names of tables. */
  public static String sql(Expression expression) {
    return ((Expression) expression.transform(new Unqualified())).sql();
  }

  /** Removes the names of tables from columns. */
  public static class Unqualified extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? ((AttributeReference) node).withQualifier((Seq) Nil$.MODULE$) : otherwise.apply(node);
    }
  }

  /** The plan without nodes that Spark's optimizer replaces before the rules that insert this plan. */
  public static LogicalPlan finished(LogicalPlan plan) {
    LogicalPlan hinted = EliminateResolvedHint$.MODULE$.apply(plan);
    return RewriteWithExpression$.MODULE$.apply(ReplaceExpressions$.MODULE$.apply(hinted));
  }

  /** The plan with the current time instead of clock functions. */
  public static LogicalPlan atOneTime(LogicalPlan plan) {
    return ComputeCurrentTime$.MODULE$.apply(plan);
  }

  /** Whether a write has WITH SCHEMA EVOLUTION, which Spark has from 4.1 on. */
  static boolean evolves(Object write) {
    return Boolean.TRUE.equals(TableChanges.optionalValue(write, "withSchemaEvolution"));
  }

  /**
   * The facts of a write, each with NUL behind it: name of the node, whether it matches columns by name, is a statement of SQL, and may
   * change the schema (1 or 0 each), the version that it may begin with (empty if not known); then keys and values of its options, in
   * which the write's own follow those of the table's name.
   */
  public static String writeFacts(V2WriteCommand write) {
    LogicalPlan plan = (LogicalPlan) write;
    String flags = flag(write.isByName()) + flag(plan.origin().sqlText().isDefined()) + flag(evolves(write));
    java.util.Map named = ((DataSourceV2Relation) write.table()).options().asCaseSensitiveMap();
    java.util.Map own = scala.jdk.javaapi.CollectionConverters.asJava(options(write));
    return plan.nodeName() + '\0' + flags + RowChangeStatements.version(plan) + '\0' + TableFields.entries(named) + TableFields.entries(own);
  }

  private static scala.collection.Map options(V2WriteCommand write) {
    if (write instanceof AppendData) return ((AppendData) write).writeOptions();
    if (write instanceof OverwriteByExpression) return ((OverwriteByExpression) write).writeOptions();
    return ((OverwritePartitionsDynamic) write).writeOptions();
  }

  private static String flag(boolean value) {
    return value ? "1\0" : "0\0";
  }

  /** The descriptions of the file indexes in the plan and its subqueries, each with NUL behind it. */
  public static String locations(LogicalPlan plan) {
    StringBuilder locations = new StringBuilder();
    addLocations(plan, locations);
    Seq nested = plan.subqueriesAll();
    for (int i = 0; i < nested.size(); i++) addLocations((LogicalPlan) nested.apply(i), locations);
    return locations.toString();
  }

  private static void addLocations(LogicalPlan plan, StringBuilder locations) {
    Seq leaves = plan.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      String location = location((LogicalPlan) leaves.apply(i));
      if (location != null) locations.append(location).append('\0');
    }
  }

  /** The description of the file index of a relation; null for other operators. */
  public static String location(LogicalPlan operator) {
    if (!(operator instanceof LogicalRelation)) return null;
    Object relation = ((LogicalRelation) operator).relation();
    return relation instanceof HadoopFsRelation ? ((HadoopFsRelation) relation).location().toString() : null;
  }

  /**
   * A condition on columns as one on what they are made of, of a projection, the groups of an aggregate, or `columns`; null if a column
   * that it reads is not deterministic or of several rows.
   */
  public static Expression below(Expression condition, Seq columns) {
    Expression below = (Expression) condition.transform(new Made(columns));
    return below.deterministic() && !below.containsPattern(TreePattern.AGGREGATE_EXPRESSION()) ? below : null;
  }

  /** The columns of a union, each as the alias of the column of one child. */
  public static Seq columns(LogicalPlan union, int child) {
    return aliased(((LogicalPlan) union.children().apply(child)).output(), union.output());
  }

  /** The first of these columns, each as the alias that is the column wanted at its place. */
  private static Seq aliased(Seq columns, Seq wanted) {
    List aliases = new ArrayList();
    for (int i = 0; i < wanted.size(); i++) {
      Attribute alias = (Attribute) wanted.apply(i);
      aliases.add(new Alias((Attribute) columns.apply(i), alias.name(), alias.exprId(), (Seq) alias.qualifier(),
          scala.Option.empty(), (Seq) Nil$.MODULE$));
    }
    return scala.jdk.javaapi.CollectionConverters.asScala(aliases).toList();
  }

  /**
   * What decides which rows of a scan matter, as a value that equals that of another scan of the table if the same rows matter there.
   *
   * @param filter null for none @param others what the table is joined with @param matches the condition of each join
   */
  public static List dependence(LogicalPlan scan, Expression filter, List others, List matches) {
    List names = new ArrayList();
    List columns = new ArrayList();
    for (int i = 0; i < scan.output().size(); i++) {
      Attribute column = (Attribute) scan.output().apply(i);
      boolean isRead = filter != null && filter.references().contains(column);
      for (int k = 0; k < matches.size(); k++) isRead |= ((Expression) matches.get(k)).references().contains(column);
      if (isRead) names.add(column.name());
      if (isRead) columns.add(column);
    }
    Seq output = scala.jdk.javaapi.CollectionConverters.asScala(columns).toList();
    LogicalPlan plan = LocalRelation$.MODULE$.apply(output, (Seq) Nil$.MODULE$, false, scala.Option.empty());
    if (filter != null) plan = new org.apache.spark.sql.catalyst.plans.logical.Filter(filter, plan);
    for (int k = 0; k < others.size(); k++)
      plan = new Join(plan, (LogicalPlan) others.get(k), LeftSemi$.MODULE$, scala.Option.apply(matches.get(k)), JoinHint.NONE());
    return Arrays.asList(new Object[] {names, plan.canonicalized()});
  }

  /** Whether the operator reads rows of a checkpoint, which are never computed again. */
  public static boolean isCheckpoint(LogicalPlan operator) {
    return operator instanceof LogicalRDD && ((LogicalRDD) operator).rdd().isCheckpointed();
  }

  /** Replaces columns by their expressions. */
  public static class Made extends scala.runtime.AbstractPartialFunction {
    private final Seq columns;

    public Made(Seq columns) {
      this.columns = columns;
    }

    private Alias of(Object node) {
      if (!(node instanceof AttributeReference)) return null;
      for (int i = 0; i < columns.size(); i++) {
        Object column = columns.apply(i);
        if (column instanceof Alias && ((Alias) column).exprId().equals(((AttributeReference) node).exprId())) return (Alias) column;
      }
      return null;
    }

    public boolean isDefinedAt(Object node) {
      return of(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      Alias made = of(node);
      return made != null ? made.child() : otherwise.apply(node);
    }
  }

  /** The plan, resolved alone by the session's analyzer. */
  public static LogicalPlan analyzed(Object session, LogicalPlan plan) {
    return (LogicalPlan) ((org.apache.spark.sql.classic.SparkSession) session).sessionState().analyzer().execute(plan);
  }

  /** The leaf of the table that a statement changes. */
  public static LogicalPlan target(LogicalPlan table) {
    return (LogicalPlan) table.collectLeaves().apply(0);
  }

  /** An EXISTS of rows, under that alias unless it is null, that satisfy the condition. */
  public static Expression exists(LogicalPlan rows, String alias, Expression condition) {
    LogicalPlan called = alias == null ? rows : SubqueryAlias$.MODULE$.apply(alias, rows);
    Seq none = (Seq) Nil$.MODULE$;
    LogicalPlan filtered = new org.apache.spark.sql.catalyst.plans.logical.Filter(condition, called);
    return new Exists(filtered, none, NamedExpression$.MODULE$.newExprId(), none, scala.Option.empty());
  }

  /** An immutable map of Scala's. */
  public static scala.collection.immutable.Map scalaMap(java.util.Map map) {
    return scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(map));
  }

  /** The number of subqueries in a frame, nested ones included. */
  public static int subqueries(org.apache.spark.sql.classic.Dataset frame) {
    return frame.queryExecution().analyzed().subqueriesAll().size();
  }

  /**
   * The rows of a frame that pass the filters of another one, which are on the columns of `columns`. The frame begins with the same columns under
   * other ids.
   */
  public static org.apache.spark.sql.classic.Dataset filteredLike(org.apache.spark.sql.classic.Dataset frame,
      org.apache.spark.sql.classic.Dataset filtered, org.apache.spark.sql.classic.Dataset columns) {
    Made made = new Made(aliased(frame.queryExecution().analyzed().output(), columns.queryExecution().analyzed().output()));
    List conditions = new ArrayList();
    LogicalPlan plan = filtered.queryExecution().analyzed();
    while (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Filter) {
      org.apache.spark.sql.catalyst.plans.logical.Filter filter = (org.apache.spark.sql.catalyst.plans.logical.Filter) plan;
      conditions.add(filter.condition());
      plan = filter.child();
    }
    org.apache.spark.sql.classic.Dataset rows = frame;
    // The last condition is on top of the plan. Spark evaluates the first one first, and it may be cheaper than those behind it.
    for (int i = conditions.size() - 1; i >= 0; i--)
      rows = rows.where(ExpressionUtils.column((Expression) ((Expression) conditions.get(i)).transform(made)));
    return rows;
  }

  /** The names of the operators that are the leaves of a frame, each with NUL at its end; null for a frame that is not deterministic. */
  public static String leaves(org.apache.spark.sql.classic.Dataset frame) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    if (!plan.deterministic()) return null;
    StringBuilder names = new StringBuilder();
    Seq leaves = plan.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) names.append(((LogicalPlan) leaves.apply(i)).nodeName()).append('\0');
    return names.toString();
  }

  /** The frame with its first columns under these names and ids, and `_metadata` as that attribute unless it is null. */
  public static org.apache.spark.sql.classic.Dataset named(org.apache.spark.sql.classic.Dataset frame, Seq attributes, Attribute metadata) {
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) frame.sparkSession();
    return org.apache.spark.sql.classic.Dataset.ofRows(session, under(frame.logicalPlan(), attributes, metadata));
  }

  /** The rows with their first columns under the names and ids of these attributes; further columns stay as they are. */
  public static LogicalPlan under(LogicalPlan rows, Seq attributes) {
    return under(rows, attributes, null);
  }

  /** The same, with `_metadata` after these columns as that attribute unless it is null. */
  public static LogicalPlan under(LogicalPlan rows, Seq attributes, Attribute metadata) {
    List columns = new ArrayList();
    for (int i = 0; i < rows.output().size(); i++) {
      Attribute column = (Attribute) rows.output().apply(i);
      boolean isMetadata = metadata != null && column.name().equals(RowChangeStatements.METADATA);
      if (i >= attributes.size() && !isMetadata) {
        columns.add(column);
        continue;
      }
      Attribute wanted = i >= attributes.size() ? metadata : (Attribute) attributes.apply(i);
      columns.add(new Alias(column, wanted.name(), wanted.exprId(), (Seq) wanted.qualifier(),
          scala.Option.apply(wanted.metadata()), (Seq) Nil$.MODULE$));
    }
    return new Project(scala.jdk.javaapi.CollectionConverters.asScala(columns).toList(), rows);
  }
}
