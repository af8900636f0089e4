package anabranch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FileSourceMetadataAttribute;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.PlanHelper$;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** The parts of resolved DELETE, UPDATE and MERGE statements, for Python. */
public final class RowChangeStatements {
  static final TreeNodeTag RETRIES = new TreeNodeTag("anabranch.conflictRetries");
  /** The version that a statement may begin with. */
  private static final TreeNodeTag VERSION = new TreeNodeTag("anabranch.resolvedVersion");
  static final String METADATA = "_metadata";

  private RowChangeStatements() {}

  /** The leaf of the table that a statement changes. */
  public static LogicalPlan leaf(LogicalPlan statement) {
    return PlanFunctions.target(target(statement));
  }

  /** The table that a statement changes. */
  public static DeltaTable table(LogicalPlan statement) {
    LogicalPlan leaf = leaf(statement);
    return DeltaRelations.isTable(leaf) ? DeltaRelations.tableOf(leaf) : DeltaRelations.unversioned(leaf);
  }

  /** Whether that is the newest version of a whole table. */
  public static boolean changesWholeTable(LogicalPlan statement) {
    return table(statement).isWhole();
  }

  /** The statement's attributes for the columns of that table. */
  public static Seq attributes(LogicalPlan statement) {
    return (Seq) leaf(statement).output().take(table(statement).schema.length());
  }

  /** The statement's attribute for `_metadata` of the table's rows; null if it does not read that. */
  public static Attribute metadata(LogicalPlan statement) {
    Seq named = statement.references().toSeq();
    LogicalPlan source = statement instanceof MergeIntoTable ? ((MergeIntoTable) statement).sourceTable() : null;
    for (int i = 0; i < named.size(); i++) {
      Attribute attribute = (Attribute) named.apply(i);
      if (!FileSourceMetadataAttribute.unapply((AttributeReference) attribute).isDefined()) continue;
      if (source == null || !source.outputSet().contains(attribute)) return attribute;
    }
    return null;
  }

  /** Whether the statement reads `_metadata` and its child does not have it yet. */
  static boolean lacksMetadata(LogicalPlan statement) {
    Seq missing = statement.missingInput().toSeq();
    for (int i = 0; i < missing.size(); i++) {
      if (FileSourceMetadataAttribute.unapply((AttributeReference) missing.apply(i)).isDefined()) return true;
    }
    return false;
  }

  /** Whether a part that Spark has not resolved yet names `_metadata`, which only leaves that can be read have. */
  public static boolean namesMetadata(LogicalPlan statement) {
    Seq parts = statement.expressions();
    for (int i = 0; i < parts.size(); i++) {
      scala.collection.Iterator leaves = ((Expression) parts.apply(i)).collectLeaves().iterator();
      while (leaves.hasNext()) {
        Object leaf = leaves.next();
        if (!(leaf instanceof UnresolvedAttribute)) continue;
        scala.collection.Iterator names = ((UnresolvedAttribute) leaf).nameParts().iterator();
        while (names.hasNext()) if (METADATA.equalsIgnoreCase((String) names.next())) return true;
      }
    }
    return false;
  }

  /**
   * Refuses `_metadata` by an error of Python's where Spark would not find it: in a condition on a view without it, and on rows to be
   * written, which are in no file yet.
   */
  static void checkMetadata(Object session, LogicalPlan statement, LogicalPlan rows, String of) {
    if (!rows.resolved() || !namesMetadata(statement)) return;
    for (int i = 0; i < rows.output().size(); i++)
      if (METADATA.equalsIgnoreCase(((Attribute) rows.output().apply(i)).name())) return;
    PythonCallbacks.refuseMetadataColumn(of);
  }

  /**
   * The statement, which may begin with the version of its table that was looked up for it: it has not read another one for a query. Not
   * if a view or a frame of an earlier statement has looked it up: rows that were written since would not be there.
   */
  static LogicalPlan withVersion(LogicalPlan statement) {
    boolean writes = statement instanceof V2WriteCommand && DeltaRelations.isTable(((V2WriteCommand) statement).table());
    if (!writes && target(statement) == null) return statement;
    DeltaTable table = writes ? DeltaRelations.tableOf(((V2WriteCommand) statement).table()) : table(statement);
    boolean isOfThisStatement = table.resolvedVersion != null && table.execution.equals(ChooseVersions.numberOfExecution());
    if (!isOfThisStatement || table.version != null || table.options.containsKey(Transactions.OPTION)) return statement;
    if (!readsTable(statement, table.path)) statement.setTagValue(VERSION, table.resolvedVersion.toString());
    return statement;
  }

  /** Whether a statement reads rows of the table in that folder besides those that it changes: in its source or query, or in a subquery. */
  private static boolean readsTable(LogicalPlan statement, String path) {
    if (statement instanceof MergeIntoTable && DeltaRelations.reads(((MergeIntoTable) statement).sourceTable(), path)) return true;
    if (statement instanceof V2WriteCommand && DeltaRelations.reads(((V2WriteCommand) statement).query(), path)) return true;
    Seq nested = statement.subqueriesAll();
    for (int i = 0; i < nested.size(); i++) if (DeltaRelations.reads((LogicalPlan) nested.apply(i), path)) return true;
    return false;
  }

  /**
   * How to execute the statement: how often again after a conflict, and the version to begin with, separated by NUL; either is empty if
   * not set.
   */
  public static String execution(LogicalPlan statement) {
    return tag(statement, RETRIES) + '\0' + version(statement);
  }

  /** The version to begin with; empty if not set. */
  static String version(LogicalPlan statement) {
    return tag(statement, VERSION);
  }

  private static String tag(LogicalPlan statement, TreeNodeTag tag) {
    Option value = statement.getTagValue(tag);
    return value.isEmpty() ? "" : (String) value.get();
  }

  /** The relation that the statement changes; null for other statements. */
  public static LogicalPlan target(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable) return ((DeleteFromTable) plan).table();
    if (plan instanceof UpdateTable) return ((UpdateTable) plan).table();
    return plan instanceof MergeIntoTable ? ((MergeIntoTable) plan).targetTable() : null;
  }

  /** The statement, after a check that Spark itself makes only after our rule. */
  public static LogicalPlan checked(LogicalPlan statement) {
    Seq refused = PlanHelper$.MODULE$.specialExpressionsInUnsupportedOperator(statement);
    if (refused.isEmpty()) return statement;
    StringBuilder sql = new StringBuilder();
    for (int i = 0; i < refused.size(); i++) sql.append(i == 0 ? "" : ", ").append(((Expression) refused.apply(i)).sql());
    Map parameters = new HashMap();
    parameters.put("operator", statement.nodeName());
    parameters.put("invalidExprSqls", sql.toString());
    Platform.throwException(new AnalysisException("UNSUPPORTED_EXPR_FOR_OPERATOR", PlanFunctions.scalaMap(parameters)));
    return null;
  }

  /** The statement with the current time instead of clock functions, and with a version for each table that it reads. */
  public static LogicalPlan atOnce(Object session, LogicalPlan statement, Long number) {
    LogicalPlan still = ComputeCurrentTime$.MODULE$.apply(statement);
    return (LogicalPlan) still.transformUpWithSubqueries(new ChooseVersions.Choose(session, number, leaf(still)));
  }

  /**
   * The clauses as JSON. An UPDATE or a DELETE has one, "matched". `keys` are the assigned columns: the path of a column or field, or
   * the text of any other expression.
   */
  public static String json(LogicalPlan statement) {
    List descriptions = new ArrayList();
    List clauses = clauses(statement);
    for (int i = 0; i < clauses.size(); i++) descriptions.add(((Clause) clauses.get(i)).description());
    return Json.text(descriptions);
  }

  /** Columns: the condition of a MERGE, then for each clause its condition and its values; null for no condition and for DEFAULT. */
  public static List columns(LogicalPlan statement) {
    List columns = new ArrayList();
    if (statement instanceof MergeIntoTable) columns.add(column(((MergeIntoTable) statement).mergeCondition()));
    List clauses = clauses(statement);
    for (int i = 0; i < clauses.size(); i++) {
      Clause clause = (Clause) clauses.get(i);
      columns.add(Literal.TrueLiteral().equals(clause.condition) ? null : column(clause.condition));
      for (int k = 0; k < clause.assignments.size(); k++) {
        Expression value = ((Assignment) clause.assignments.apply(k)).value();
        columns.add(Placeholders.isDefault(value) ? null : column(value));
      }
    }
    return columns;
  }

  private static Object column(Expression expression) {
    return expression == null ? null : org.apache.spark.sql.classic.ExpressionUtils.column(expression);
  }

  private static List clauses(LogicalPlan statement) {
    List clauses = new ArrayList();
    if (statement instanceof DeleteFromTable) {
      clauses.add(new Clause("matched", "delete", ((DeleteFromTable) statement).condition(), null));
    } else if (statement instanceof UpdateTable) {
      UpdateTable update = (UpdateTable) statement;
      clauses.add(new Clause("matched", "update", orNull(update.condition()), update.assignments()));
    } else {
      MergeIntoTable merge = (MergeIntoTable) statement;
      add(clauses, "matched", merge.matchedActions());
      add(clauses, "not_matched", merge.notMatchedActions());
      add(clauses, "not_matched_by_source", merge.notMatchedBySourceActions());
    }
    return clauses;
  }

  private static void add(List clauses, String match, Seq actions) {
    for (int i = 0; i < actions.size(); i++) {
      Object action = actions.apply(i);
      if (action instanceof DeleteAction) clauses.add(new Clause(match, "delete", orNull(((DeleteAction) action).condition()), null));
      if (action instanceof UpdateAction) {
        clauses.add(new Clause(match, "update", orNull(((UpdateAction) action).condition()), ((UpdateAction) action).assignments()));
      }
      if (action instanceof InsertAction) {
        clauses.add(new Clause(match, "insert", orNull(((InsertAction) action).condition()), ((InsertAction) action).assignments()));
      }
    }
  }

  private static Expression orNull(Option condition) {
    return condition.isEmpty() ? null : (Expression) condition.get();
  }

  /** A clause: the rows and the action on them. */
  private static final class Clause {
    final String match;
    final String action;
    final Expression condition;
    final Seq assignments;
    final boolean isStar;

    Clause(String match, String action, Expression condition, Seq assignments) {
      this.match = match;
      this.action = action;
      this.condition = condition;
      this.isStar = assignments != null && assignments.size() == 1 && Placeholders.isStar(((Assignment) assignments.apply(0)).key());
      this.assignments = assignments == null || isStar ? (Seq) Nil$.MODULE$ : assignments;
    }

    Map description() {
      Map description = new HashMap();
      List keys = new ArrayList();
      for (int i = 0; i < assignments.size(); i++) {
        Assignment assignment = (Assignment) assignments.apply(i);
        List path = new ArrayList();
        keys.add(adds(assignment.key(), path) ? (Object) path : assignment.key().sql());
      }
      description.put("match", match);
      description.put("action", action);
      description.put("star", Boolean.valueOf(isStar));
      description.put("keys", keys);
      return description;
    }

    /** Adds the names of the path to a column or field. False for others, such as an element of an array. */
    private static boolean adds(Expression key, List path) {
      if (key instanceof Alias) return adds(((Alias) key).child(), path);
      if (key instanceof GetStructField) {
        GetStructField field = (GetStructField) key;
        if (!adds(field.child(), path)) return false;
        path.add(field.childSchema().apply(field.ordinal()).name());
        return true;
      }
      if (Placeholders.isName(key)) return path.addAll(Placeholders.names(key));
      return key instanceof Attribute && path.add(((Attribute) key).name());
    }
  }
}
