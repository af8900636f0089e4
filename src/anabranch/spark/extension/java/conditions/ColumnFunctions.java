package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;

/** Casts and checks of written values, and selections of columns, each made by one call from Python: see `jvm_classes.py`. */
public final class ColumnFunctions {
  private static final int VALUE_LENGTH_MAX = 500;

  private ColumnFunctions() {}

  /** A value cast by Spark's policy LEGACY, for any ANSI setting of the session: numbers wrap around, invalid text becomes null. */
  public static org.apache.spark.sql.Column legacyCast(org.apache.spark.sql.Column value, String type) {
    return ExpressionUtils.column(
        new Cast(ExpressionUtils.expression(value), DataType.fromJson(type), scala.Option.empty(), EvalMode.LEGACY()));
  }

  /** A value cast as by a query of the session. */
  public static org.apache.spark.sql.Column cast(org.apache.spark.sql.Column value, String type) {
    return value.cast(DataType.fromJson(type));
  }

  /** A value cast; where it is not null but the result is, the job fails. See `refused`. */
  public static org.apache.spark.sql.Column checkedCast(org.apache.spark.sql.Column value, String type, String failure) {
    org.apache.spark.sql.Column result = value.try_cast(DataType.fromJson(type));
    return refused(value.isNotNull().and(result.isNull()), result, failure, "value", value, null);
  }

  /**
   * The columns of a frame under other names, and cast where they have other types.
   *
   * @param columns for each column its position in the frame, its name, its type as JSON, and the text with which the job fails if a value
   *     does not fit, each with NUL behind it. Without a type it is as in the frame, and without a text every value fits. Without a position
   *     it is the column of that name, in backticks where they are needed, and without a name the next one of `others`.
   * @param others further columns; all that are left are put last. May be null for none.
   */
  public static org.apache.spark.sql.classic.Dataset select(org.apache.spark.sql.classic.Dataset frame, String columns, List others) {
    scala.collection.immutable.Seq output = frame.queryExecution().analyzed().output();
    String[] parts = columns.split("\0", -1);
    List selected = new ArrayList();
    int next = 0;
    for (int i = 0; i < parts.length / 4; i++) {
      String position = parts[4 * i];
      String type = parts[4 * i + 2];
      String failure = parts[4 * i + 3];
      String name = parts[4 * i + 1];
      if (position.isEmpty()) {
        selected.add(name.isEmpty() ? others.get(next++) : functions.col(name));
        continue;
      }
      org.apache.spark.sql.Column value = ExpressionUtils.column((Expression) output.apply(Integer.parseInt(position)));
      if (!type.isEmpty()) value = failure.isEmpty() ? cast(value, type) : checkedCast(value, type, failure);
      selected.add(value.alias(name));
    }
    if (others != null) selected.addAll(others.subList(next, others.size()));
    return (org.apache.spark.sql.classic.Dataset) frame.select(
        (org.apache.spark.sql.Column[]) selected.toArray(new org.apache.spark.sql.Column[0]));
  }

  /** The columns of a frame that these texts of SQL say, each with NUL behind it. */
  public static org.apache.spark.sql.classic.Dataset selectSql(org.apache.spark.sql.classic.Dataset frame, String texts) {
    return (org.apache.spark.sql.classic.Dataset) frame.selectExpr(texts.split("\0"));
  }

  /**
   * Columns with the value of the first condition that is true, or NULL.
   *
   * @param values the values by condition, then by column; null stands for NULL @param names of the columns, each with NUL behind it
   * @param otherwise whether rows for which no condition is true keep the value of the column of that name
   */
  public static List caseWhen(List conditions, List values, String names, boolean otherwise) {
    String[] parts = names.isEmpty() ? new String[0] : names.split("\0");
    List columns = new ArrayList();
    for (int i = 0; i < parts.length; i++) {
      org.apache.spark.sql.Column value = otherwise ? functions.col(parts[i]) : functions.lit(null);
      for (int k = conditions.size() - 1; k >= 0; k--) {
        Object then = values.get(k * parts.length + i);
        value = functions.when((org.apache.spark.sql.Column) conditions.get(k), then == null ? functions.lit(null) : then).otherwise(value);
      }
      columns.add(value.alias(parts[i]));
    }
    return columns;
  }

  /**
   * The value, unless `violated` is true in a row: then the job fails with a text and, after it, the columns shown, as JSON.
   *
   * @param names the names of the columns shown, separated by NUL; empty for none
   * @param second may be null, as may `first` if there is none
   */
  public static org.apache.spark.sql.Column refused(org.apache.spark.sql.Column violated, org.apache.spark.sql.Column value,
      String failure, String names, org.apache.spark.sql.Column first, org.apache.spark.sql.Column second) {
    String[] parts = names.split("\0", -1);
    org.apache.spark.sql.Column shown = functions.lit("{}");
    if (second != null)
      shown = functions.to_json(functions.struct(new org.apache.spark.sql.Column[] {cut(first, parts[0]), cut(second, parts[1])}));
    else if (first != null) shown = functions.to_json(functions.struct(new org.apache.spark.sql.Column[] {cut(first, parts[0])}));
    org.apache.spark.sql.Column message = functions.concat(new org.apache.spark.sql.Column[] {functions.lit(failure), shown});
    return functions.when(violated, functions.raise_error(message)).otherwise(value);
  }

  private static org.apache.spark.sql.Column cut(org.apache.spark.sql.Column value, String name) {
    org.apache.spark.sql.Column text = functions.substring(value.cast("string"), 1, VALUE_LENGTH_MAX);
    return functions.coalesce(new org.apache.spark.sql.Column[] {text, functions.lit("NULL")}).alias(name);
  }
}
