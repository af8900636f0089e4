package anabranch;

import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;

/** Casts and checks of written values, each made by one call from Python: see `jvm_classes.py`. */
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
