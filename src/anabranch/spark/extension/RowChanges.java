package delta;

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
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** DELETE, UPDATE and MERGE, resolved, as Python asks for them. */
public final class RowChanges {
  static final TreeNodeTag RETRIES = new TreeNodeTag("delta.conflictRetries");
  static final String METADATA = "_metadata";

  private RowChanges() {}

  /** The leaf of the table that a statement changes. */
  public static LogicalPlan leaf(LogicalPlan statement) {
    return Plans.target(target(statement));
  }

  /** The table that a statement changes. */
  public static DeltaTable table(LogicalPlan statement) {
    LogicalPlan leaf = leaf(statement);
    return Leaves.isTable(leaf) ? Leaves.tableOf(leaf) : Leaves.unversioned(leaf);
  }

  /** The columns of that table, as the statement calls them. */
  public static Seq attributes(LogicalPlan statement) {
    return (Seq) leaf(statement).output().take(table(statement).schema.length());
  }

  /** The attribute by which the statement asks for `_metadata` of the table's rows; null where it does not. */
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

  /** Whether `_metadata` is named of rows that do not show it yet. */
  static boolean lacksMetadata(LogicalPlan statement) {
    Seq missing = statement.missingInput().toSeq();
    for (int i = 0; i < missing.size(); i++) {
      if (FileSourceMetadataAttribute.unapply((AttributeReference) missing.apply(i)).isDefined()) return true;
    }
    return false;
  }

  /** Whether a part that Spark has not resolved yet names `_metadata`. Spark knows it of leaves that can be read. */
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
   * Refuses `_metadata` by an error of Python's where Spark would not find it: in a condition on a view that does not show it, and
   * on rows that are to be written, which are in no file yet.
   */
  static void checkMetadata(Object session, LogicalPlan statement, LogicalPlan rows, String of) {
    if (!rows.resolved() || !namesMetadata(statement)) return;
    for (int i = 0; i < rows.output().size(); i++)
      if (METADATA.equalsIgnoreCase(((Attribute) rows.output().apply(i)).name())) return;
    Python.ask("refuse metadata", new Object[] {of});
  }

  /** How often it may be executed again after a conflict, as text; null where its caller has not said so. */
  public static String retries(LogicalPlan statement) {
    Option given = statement.getTagValue(RETRIES);
    return given.isEmpty() ? null : (String) given.get();
  }

  /** What the statement changes, or null for other statements. */
  public static LogicalPlan target(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable) return ((DeleteFromTable) plan).table();
    if (plan instanceof UpdateTable) return ((UpdateTable) plan).table();
    return plan instanceof MergeIntoTable ? ((MergeIntoTable) plan).targetTable() : null;
  }

  /** The statement, refused as Spark would refuse it for a table of its own: its own check comes after us. */
  public static LogicalPlan checked(LogicalPlan statement) {
    Seq refused = PlanHelper$.MODULE$.specialExpressionsInUnsupportedOperator(statement);
    if (refused.isEmpty()) return statement;
    StringBuilder told = new StringBuilder();
    for (int i = 0; i < refused.size(); i++) told.append(i == 0 ? "" : ", ").append(((Expression) refused.apply(i)).sql());
    Map facts = new HashMap();
    facts.put("operator", statement.nodeName());
    facts.put("invalidExprSqls", told.toString());
    Platform.throwException(new AnalysisException("UNSUPPORTED_EXPR_FOR_OPERATOR", Plans.scalaMap(facts)));
    return null;
  }

  /** The statement at one moment: the clock in it stands still, and each table that it reads has one version. */
  public static LogicalPlan atOnce(Object session, LogicalPlan statement, Long number) {
    LogicalPlan still = ComputeCurrentTime$.MODULE$.apply(statement);
    return (LogicalPlan) still.transformUpWithSubqueries(new Versions.Choose(session, number, leaf(still)));
  }

  /**
   * The clauses as JSON. An UPDATE or a DELETE has one, of "matched". `keys` are what is set: the path of a column or field,
   * or the text of what is neither.
   */
  public static String facts(LogicalPlan statement) {
    List told = new ArrayList();
    List clauses = clauses(statement);
    for (int i = 0; i < clauses.size(); i++) told.add(((Clause) clauses.get(i)).facts());
    return Json.text(told);
  }

  /** Columns, null for none: the condition of a MERGE, then for each clause its condition and its values; those of DEFAULT are none. */
  public static List columns(LogicalPlan statement) {
    List found = new ArrayList();
    if (statement instanceof MergeIntoTable) found.add(column(((MergeIntoTable) statement).mergeCondition()));
    List clauses = clauses(statement);
    for (int i = 0; i < clauses.size(); i++) {
      Clause clause = (Clause) clauses.get(i);
      found.add(Literal.TrueLiteral().equals(clause.condition) ? null : column(clause.condition));
      for (int k = 0; k < clause.assignments.size(); k++) {
        Expression value = ((Assignment) clause.assignments.apply(k)).value();
        found.add(Marks.isDefault(value) ? null : column(value));
      }
    }
    return found;
  }

  private static Object column(Expression expression) {
    return expression == null ? null : org.apache.spark.sql.classic.ExpressionUtils.column(expression);
  }

  private static List clauses(LogicalPlan statement) {
    List found = new ArrayList();
    if (statement instanceof DeleteFromTable) {
      found.add(new Clause("matched", "delete", ((DeleteFromTable) statement).condition(), null));
    } else if (statement instanceof UpdateTable) {
      UpdateTable update = (UpdateTable) statement;
      found.add(new Clause("matched", "update", given(update.condition()), update.assignments()));
    } else {
      MergeIntoTable merge = (MergeIntoTable) statement;
      add(found, "matched", merge.matchedActions());
      add(found, "not_matched", merge.notMatchedActions());
      add(found, "not_matched_by_source", merge.notMatchedBySourceActions());
    }
    return found;
  }

  private static void add(List clauses, String match, Seq actions) {
    for (int i = 0; i < actions.size(); i++) {
      Object action = actions.apply(i);
      if (action instanceof DeleteAction) clauses.add(new Clause(match, "delete", given(((DeleteAction) action).condition()), null));
      if (action instanceof UpdateAction) {
        clauses.add(new Clause(match, "update", given(((UpdateAction) action).condition()), ((UpdateAction) action).assignments()));
      }
      if (action instanceof InsertAction) {
        clauses.add(new Clause(match, "insert", given(((InsertAction) action).condition()), ((InsertAction) action).assignments()));
      }
    }
  }

  private static Expression given(Option condition) {
    return condition.isEmpty() ? null : (Expression) condition.get();
  }

  /** What is done with which rows. */
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
      this.isStar = assignments != null && assignments.size() == 1 && Marks.isStar(((Assignment) assignments.apply(0)).key());
      this.assignments = assignments == null || isStar ? (Seq) Nil$.MODULE$ : assignments;
    }

    Map facts() {
      Map facts = new HashMap();
      List keys = new ArrayList();
      for (int i = 0; i < assignments.size(); i++) {
        Assignment assignment = (Assignment) assignments.apply(i);
        List path = new ArrayList();
        keys.add(adds(assignment.key(), path) ? (Object) path : assignment.key().sql());
      }
      facts.put("match", match);
      facts.put("action", action);
      facts.put("star", Boolean.valueOf(isStar));
      facts.put("keys", keys);
      return facts;
    }

    /** Adds the names that lead to a column or a field. False for anything else, such as an element of an array. */
    private static boolean adds(Expression key, List path) {
      if (key instanceof Alias) return adds(((Alias) key).child(), path);
      if (key instanceof GetStructField) {
        GetStructField field = (GetStructField) key;
        if (!adds(field.child(), path)) return false;
        path.add(field.childSchema().apply(field.ordinal()).name());
        return true;
      }
      if (Marks.isName(key)) return path.addAll(Marks.names(key));
      return key instanceof Attribute && path.add(((Attribute) key).name());
    }
  }
}
