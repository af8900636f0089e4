package delta;

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

/** DELETE, UPDATE and MERGE of DeltaTable's methods: the plans that Spark's parser makes of the statements. */
public final class RowChangePlans {
  private RowChangePlans() {}

  public static LogicalPlan delete(LogicalPlan target, Expression condition) {
    return new DeleteFromTable(target, condition == null ? Marks.always() : condition);
  }

  /** @param names of columns or fields, as SQL has them or as expressions; `values` in their order */
  public static LogicalPlan update(LogicalPlan target, List names, List values, Expression condition) {
    return new UpdateTable(target, assignments(names, values), Option.apply(condition));
  }

  public static LogicalPlan merge(
      LogicalPlan target, LogicalPlan source, Expression on, List matched, List notMatched, List notMatchedBySource, boolean evolves) {
    MergeIntoTable merge = new MergeIntoTable(target, source, on, seq(matched), seq(notMatched), seq(notMatchedBySource), evolves);
    return Marks.set(merge, true);
  }

  /** A clause of MERGE. Without names it is one of a star. */
  public static Object action(String kind, Expression condition, List names, List values) {
    Option given = Option.apply(condition);
    if (kind.equals("delete")) return new DeleteAction(given);
    if (kind.equals("update")) {
      return names == null ? new UpdateStarAction(given) : Marks.updateAction(given, assignments(names, values));
    }
    return names == null ? (Object) new InsertStarAction(given) : new InsertAction(given, assignments(names, values));
  }

  /** Runs the statement. @param retries how often again after a conflict, as text; null for what the session says */
  public static Object run(Object session, LogicalPlan statement, String retries) {
    // Over a table that is resolved Spark's analyzer comes to the values before our rule does.
    if (statement instanceof MergeIntoTable) statement = Variables.set(session, statement);
    if (retries != null) statement.setTagValue(RowChanges.RETRIES, retries);
    return org.apache.spark.sql.classic.Dataset.ofRows((org.apache.spark.sql.classic.SparkSession) session, statement);
  }

  private static Seq assignments(List names, List values) {
    List found = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      Object name = names.get(i);
      Expression key = name instanceof Expression ? (Expression) name : UnresolvedAttribute.quotedString((String) name);
      found.add(new Assignment(key, (Expression) values.get(i)));
    }
    return seq(found);
  }

  private static Seq seq(List list) {
    return scala.jdk.javaapi.CollectionConverters.asScala(list).toList();
  }
}
