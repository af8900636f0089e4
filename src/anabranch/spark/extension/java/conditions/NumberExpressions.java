package anabranch;

import java.util.Arrays;
import org.apache.hadoop.io.WritableComparator;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Expressions of Spark that look up numbers in bytes, for executors, which do not have our classes. */
final class NumberExpressions {
  private NumberExpressions() {}

  /** The big-endian number of four bytes at an offset; null if there are no bytes. */
  static Expression readInt(Expression bytes, Expression offset) {
    return new StaticInvoke(WritableComparator.class, DataTypes.IntegerType, "readInt", seq(new Object[] {bytes, offset}),
        (Seq) Nil$.MODULE$, true, false, true, scala.Option.empty());
  }

  /** The number as one of 32 bits. */
  static Expression whole(Expression number) {
    return new Cast(number, DataTypes.IntegerType, scala.Option.empty(), EvalMode.LEGACY());
  }

  static Expression number(int value) {
    return new Literal(Integer.valueOf(value), DataTypes.IntegerType);
  }

  static Expression number(long value) {
    return new Literal(Long.valueOf(value), DataTypes.LongType);
  }

  static Seq seq(Object[] items) {
    return scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList(items)).toList();
  }
}
