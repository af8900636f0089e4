package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import scala.Option;
import scala.collection.immutable.Seq;

/** DELETE, UPDATE and MERGE of DeltaTable's methods, as the plans that Spark's parser makes for the statements. */
public final class RowChangePlans {
  private RowChangePlans() {}

  public static LogicalPlan delete(LogicalPlan target, Expression condition) {
    return new DeleteFromTable(target, condition == null ? Placeholders.always() : condition);
  }

  /** @param names columns or fields, as SQL text or as expressions; `values` are in their order */
  public static LogicalPlan update(LogicalPlan target, List names, List values, Expression condition) {
    return new UpdateTable(target, assignments(names, values), Option.apply(condition));
  }

  public static LogicalPlan merge(
      LogicalPlan target, LogicalPlan source, Expression on, List matched, List notMatched, List notMatchedBySource, boolean evolves) {
    MergeIntoTable merge = new MergeIntoTable(target, source, on, seq(matched), seq(notMatched), seq(notMatchedBySource), evolves);
    return Placeholders.set(merge, true);
  }

  /** A clause of MERGE. Without names it has a star. */
  public static Object action(String kind, Expression condition, List names, List values) {
    Option option = Option.apply(condition);
    if (kind.equals("delete")) return new DeleteAction(option);
    if (kind.equals("update")) {
      return names == null ? new UpdateStarAction(option) : Placeholders.updateAction(option, assignments(names, values));
    }
    return names == null ? (Object) new InsertStarAction(option) : new InsertAction(option, assignments(names, values));
  }

  /** Runs the statement. @param retries how often to run it again after a conflict, as text; null for the session's setting */
  public static Object run(Object session, LogicalPlan statement, String retries) {
    // If the table is resolved, Spark's analyzer resolves the values before our rule runs.
    if (statement instanceof MergeIntoTable) statement = ResolveVariables.set(session, statement);
    if (retries != null) statement.setTagValue(RowChangeStatements.RETRIES, retries);
    return org.apache.spark.sql.classic.Dataset.ofRows((org.apache.spark.sql.classic.SparkSession) session, statement);
  }

  private static Seq assignments(List names, List values) {
    List assignments = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      Object name = names.get(i);
      Expression key = name instanceof Expression ? (Expression) name : UnresolvedAttribute.quotedString((String) name);
      assignments.add(new Assignment(key, (Expression) values.get(i)));
    }
    return seq(assignments);
  }

  private static Seq seq(List list) {
    return scala.jdk.javaapi.CollectionConverters.asScala(list).toList();
  }
}
