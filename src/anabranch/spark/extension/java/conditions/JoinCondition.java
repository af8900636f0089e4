package anabranch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.BinaryExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.ExpressionUtils;
import scala.collection.immutable.Seq;

/** The resolved condition of a MERGE, and the parts of it from which files of the table are chosen. */
public final class JoinCondition {
  private final Map facts;
  private final List columns = new ArrayList();

  /** The condition of a filtered frame, which has the columns of `target`, the table, and of a source. */
  public JoinCondition(org.apache.spark.sql.classic.Dataset filtered, org.apache.spark.sql.classic.Dataset target, boolean wantsText) {
    Expression condition = ConditionJson.of(filtered);
    AttributeSet ofTarget = target.queryExecution().analyzed().outputSet();
    this.facts = ConditionJson.facts(condition, wantsText);
    if (facts.get("subquery") == Boolean.TRUE) return;
    List names = new ArrayList();
    Seq references = condition.references().toSeq();
    for (int i = 0; i < references.size(); i++) {
      Attribute column = (Attribute) references.apply(i);
      if (ofTarget.contains(column)) names.add(column.name());
    }
    facts.put("columns", names);
    facts.put("parts", parts(condition, ofTarget, new ArrayList()));
  }

  /**
   * The facts of `ConditionJson.facts` but for the filters. Without a subquery also the table's `columns` that are read, and `parts`, conjuncts of
   * the condition. Each has the number of its value on the side of the table, a `target`. Where that equals a value of the source, it has the
   * number of this `source`, the `type` of both (empty if they differ), whether NULL equals NULL (`nullSafe`), and the `column` that the first
   * value is, or null.
   */
  public String facts() {
    return Json.text(facts);
  }

  /** The value of that number. */
  public org.apache.spark.sql.Column column(int number) {
    return ExpressionUtils.column((Expression) columns.get(number));
  }

  private List parts(Expression condition, AttributeSet ofTarget, List parts) {
    String name = condition.nodeName();
    Expression left = condition instanceof BinaryExpression ? (Expression) ((BinaryExpression) condition).left() : null;
    Expression right = condition instanceof BinaryExpression ? (Expression) ((BinaryExpression) condition).right() : null;
    if (name.equals("And")) return parts(right, ofTarget, parts(left, ofTarget, parts));
    Map part = condition.references().subsetOf(ofTarget) ? numbered("target", condition, new HashMap()) : null;
    if (part == null && (name.equals("EqualTo") || name.equals("EqualNullSafe"))) {
      part = key(left, right, ofTarget);
      if (part == null) part = key(right, left, ofTarget);
      if (part != null) part.put("nullSafe", Boolean.valueOf(name.equals("EqualNullSafe")));
    }
    if (part != null) parts.add(part);
    return parts;
  }

  private Map key(Expression target, Expression source, AttributeSet ofTarget) {
    boolean isOfTarget = !target.references().isEmpty() && target.references().subsetOf(ofTarget);
    if (!isOfTarget || !source.references().intersect(ofTarget).isEmpty()) return null;
    Map key = numbered("source", source, numbered("target", target, new HashMap()));
    String type = target.dataType().catalogString();
    key.put("type", type.equals(source.dataType().catalogString()) ? type : "");
    key.put("column", target instanceof AttributeReference ? ((AttributeReference) target).name() : null);
    return key;
  }

  private Map numbered(String side, Expression value, Map part) {
    part.put(side, Integer.valueOf(columns.size()));
    columns.add(value);
    return part;
  }
}
