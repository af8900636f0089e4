package anabranch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Resolved conditions as text for Python, and the rows that they are resolved for. */
public final class ConditionJson {
  private static final String[] CLOCKS = {
      "CurrentDate", "CurrentTime", "CurrentTimestamp", "CurrentTimestampLike", "LocalTimestamp", "Now"};
  /** Operators that return one row, or none, for each row of their input. */
  private static final Set ROW_BY_ROW = new HashSet(Arrays.asList(new Object[] {"Project", "Filter", "ArrowEvalPython", "BatchEvalPython"}));

  private ConditionJson() {}

  /** No rows with these columns, which the optimizer does not know to be none. */
  public static org.apache.spark.sql.classic.Dataset empty(org.apache.spark.sql.classic.SparkSession session, String schema) {
    org.apache.spark.rdd.RDD none = session.sparkContext().emptyRDD(scala.reflect.ClassTag$.MODULE$.apply(InternalRow.class));
    return session.internalCreateDataFrame(none, (StructType) DataType.fromJson(schema), false);
  }

  /** The resolved condition of a filtered frame. */
  public static Expression of(org.apache.spark.sql.classic.Dataset filtered) {
    return ((org.apache.spark.sql.catalyst.plans.logical.Filter) filtered.queryExecution().analyzed()).condition();
  }

  /**
   * Facts on the condition of a filtered frame, as JSON: whether it has a `subquery`; if not, whether it reads the `clock` and is
   * `deterministic`, and its text as `sql`, if that is wanted; and, where there is neither subquery nor clock, the `filters` of `passed`.
   */
  public static String facts(org.apache.spark.sql.classic.Dataset filtered, boolean wantsText) {
    Expression condition = of(filtered);
    Map facts = facts(condition, wantsText);
    if (facts.get("subquery") == Boolean.FALSE && facts.get("clock") == Boolean.FALSE) {
      facts.put("filters", filters(filtered.queryExecution().optimizedPlan()));
    }
    return Json.text(facts);
  }

  static Map facts(Expression condition, boolean wantsText) {
    Map facts = new HashMap();
    facts.put("subquery", Boolean.valueOf(SubqueryExpression.hasSubquery(condition)));
    // The JSON of a subquery has its whole plan.
    if (facts.get("subquery") == Boolean.TRUE) return facts;
    facts.put("clock", Boolean.valueOf(readsClock(condition)));
    facts.put("deterministic", Boolean.valueOf(condition.deterministic()));
    if (wantsText) facts.put("sql", condition.sql());
    return facts;
  }

  /** Whether a resolved expression reads the clock; true where that is not known. */
  public static boolean readsClock(Expression expression) {
    String nodes;
    try {
      nodes = expression.toJSON();
    } catch (Throwable error) {
      return true;
    }
    for (int i = 0; i < CLOCKS.length; i++) if (nodes.contains("expressions." + CLOCKS[i] + "\"")) return true;
    return false;
  }

  /**
   * The conditions of the filters between the root of a plan and its leaf, as JSON of pairs: `filter` and the JSON of a condition; `other` and
   * the text of one that has no JSON, or the name of the operator at which the search ended; `never`, alone, for a plan without rows.
   */
  public static String passed(LogicalPlan plan) {
    return Json.text(filters(plan));
  }

  private static List filters(LogicalPlan plan) {
    List filters = new ArrayList();
    for (LogicalPlan node = plan;; node = (LogicalPlan) node.children().apply(0)) {
      String name = node.nodeName();
      if (name.equals("Filter")) filters.add(filter(((org.apache.spark.sql.catalyst.plans.logical.Filter) node).condition()));
      if (name.equals("LocalRelation")) return Arrays.asList(new Object[] {pair("never", "")});
      if (node.children().isEmpty()) return filters;
      if (!ROW_BY_ROW.contains(name)) {
        filters.add(pair("other", name));
        return filters;
      }
    }
  }

  private static List filter(Expression condition) {
    try {
      return pair("filter", json(condition));
    } catch (Throwable error) {
      // Some expressions, such as functions in Python, have no JSON.
      return pair("other", condition.toString());
    }
  }

  private static List pair(String kind, String text) {
    return Arrays.asList(new Object[] {kind, text});
  }

  /**
   * Spark's JSON with all values: Spark leaves out those of an `InSet`, an `In` of many values. Timestamps are in UTC. In the session's
   * zone a text may be ambiguous, and Python's zone data may differ from the JVM's.
   */
  public static String json(Expression condition) {
    SQLConf inUtc = SQLConf.get().clone();
    inUtc.setConfString("spark.sql.session.timeZone", "UTC");
    return (String) SQLConf.withExistingConf(inUtc, new Written((Expression) condition.transform(new AsIn())));
  }

  /** Writes an expression as JSON, with the current settings. */
  public static class Written extends scala.runtime.AbstractFunction0 {
    private final Expression expression;

    public Written(Expression expression) {
      this.expression = expression;
    }

    public Object apply() {
      return expression.toJSON();
    }
  }

  /** Replaces every `InSet` by an `In`. */
  public static class AsIn extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof InSet;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Expression subject = ((InSet) node).child();
      List values = new ArrayList();
      for (scala.collection.Iterator items = ((InSet) node).hset().iterator(); items.hasNext();) {
        values.add(new Literal(items.next(), subject.dataType()));
      }
      return new org.apache.spark.sql.catalyst.expressions.In(subject, scala.jdk.javaapi.CollectionConverters.asScala(values).toList());
    }
  }
}
