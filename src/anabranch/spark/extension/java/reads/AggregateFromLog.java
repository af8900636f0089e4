package anabranch;

import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ToPrettyString;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;

/** Replaces `count(*)`, `min` and `max` of all rows of a table by one row of values, if the table's log has all of them. */
public class AggregateFromLog extends scala.runtime.AbstractPartialFunction {
  private static final String SETTING = "spark.databricks.delta.optimizeMetadataQuery.enabled";

  private final Object session;

  public AggregateFromLog(Object session) {
    this.session = session;
  }

  /** Whether the session's setting allows it. */
  public static boolean isWanted() {
    return !SQLConf.get().getConfString(SETTING, "true").trim().equalsIgnoreCase("false");
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof Aggregate && leafOf((Aggregate) node) != null && functions((Aggregate) node) != null;
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    Aggregate aggregate = (Aggregate) node;
    DeltaTable table = DeltaRelations.unversioned(leafOf(aggregate));
    String joined = PythonCallbacks.aggregateTable(session, table, ChooseVersions.numberOfExecution(), functions(aggregate));
    if (joined == null) return node;
    String[] values = joined.split("\0", -1);
    Object[] row = new Object[values.length];
    for (int i = 0; i < values.length; i++) {
      Expression column = (Expression) aggregate.aggregateExpressions().apply(i);
      row[i] = CatalystTypeConverters.convertToScala(valueOf(child(column), values[i]), column.dataType());
    }
    Seq rows = seq(new Object[] {org.apache.spark.sql.RowFactory.create(row)});
    return LocalRelation$.MODULE$.fromExternalRows(aggregate.output(), rows);
  }

  /** The leaf of the table whose rows all go into the aggregate; null otherwise. */
  private static LogicalPlan leafOf(Aggregate aggregate) {
    if (!aggregate.groupingExpressions().isEmpty() || aggregate.aggregateExpressions().isEmpty()) return null;
    LogicalPlan below = aggregate.child();
    while (below instanceof Project) {
      Seq columns = ((Project) below).projectList();
      for (int i = 0; i < columns.size(); i++) if (!(columns.apply(i) instanceof AttributeReference)) return null;
      below = ((Project) below).child();
    }
    return DeltaRelations.unversioned(below) == null || below.isStreaming() ? null : below;
  }

  /** The functions, a word for each column: `count`, or `min` or `max` with the index of a column; null if there are others. */
  private static String functions(Aggregate aggregate) {
    LogicalPlan leaf = leafOf(aggregate);
    int columns = DeltaRelations.unversioned(leaf).schema.length();
    StringBuilder words = new StringBuilder();
    for (int i = 0; i < aggregate.aggregateExpressions().size(); i++) {
      Object function = functionOf((Expression) aggregate.aggregateExpressions().apply(i));
      if (function == null) return null;
      if (i > 0) words.append(' ');
      if (function instanceof Count) {
        words.append("count");
        continue;
      }
      Object of = function instanceof Min ? ((Min) function).child() : ((Max) function).child();
      int index = indexOf(leaf.output(), of);
      if (index < 0 || index >= columns) return null;
      words.append(function instanceof Min ? "min:" : "max:").append(index);
    }
    return words.toString();
  }

  private static int indexOf(Seq output, Object column) {
    if (!(column instanceof AttributeReference)) return -1;
    for (int i = 0; i < output.size(); i++)
      if (((Attribute) output.apply(i)).exprId().equals(((AttributeReference) column).exprId())) return i;
    return -1;
  }

  /** `count(*)`, `min` or `max` over all rows, or null. */
  private static Object functionOf(Expression column) {
    Expression below = child(column);
    if (below instanceof ToPrettyString) below = ((ToPrettyString) below).child();
    if (!(below instanceof AggregateExpression)) return null;
    AggregateExpression aggregate = (AggregateExpression) below;
    if (aggregate.isDistinct() || aggregate.filter().isDefined() || aggregate.mode() != Complete$.MODULE$) return null;
    Object function = aggregate.aggregateFunction();
    if (function instanceof Min || function instanceof Max) return function;
    if (!(function instanceof Count) || ((Count) function).children().size() != 1) return null;
    Object counted = ((Count) function).children().apply(0);
    return counted instanceof Literal && ((Literal) counted).value() != null ? function : null;
  }

  private static Expression child(Expression column) {
    return column instanceof Alias ? ((Alias) column).child() : column;
  }

  /** The value of the column if its function has this value, a whole number, or empty for NULL. */
  private static Object valueOf(Expression column, String number) {
    boolean isText = column instanceof ToPrettyString;
    Expression function = isText ? ((ToPrettyString) column).child() : column;
    Expression value = new Literal(null, function.dataType());
    if (!number.isEmpty() && function.dataType().equals(DataTypes.DateType)) {
      value = new Literal(Integer.valueOf(number), DataTypes.DateType);
    } else if (!number.isEmpty()) {
      value = new Cast(new Literal(Long.valueOf(number), DataTypes.LongType), function.dataType(), scala.Option.empty());
    }
    return isText ? ((Expression) column.withNewChildren(seq(new Object[] {value}))).eval(null) : value.eval(null);
  }

  private static Seq seq(Object[] items) {
    return scala.jdk.javaapi.CollectionConverters.asScala(java.util.Arrays.asList(items)).toList();
  }
}
