package delta;

import org.apache.hadoop.io.WritableComparator;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Leaves hidden rows out of a scan. Executors need only classes of Spark and Hadoop.
 *
 * The column of hidden rows is a constant of the file, so that each row costs two reads from an array that is already in the
 * processor's cache. `WritableComparator.readInt` is Hadoop's, in every Spark, and checks its bounds.
 */
public final class LiveRows {
  private static final int WORD_BITS = 5;

  private LiveRows() {}

  /**
   * The rows without those in the hidden column, which `hidden_rows.encode` makes; null hides nothing.
   *
   * @param chunkBits the number of rows of a chunk, as a power of two
   * @param shown whether only the rows in the column are returned instead
   */
  public static Dataset of(Dataset rows, String hiddenColumn, int chunkBits, boolean shown) {
    org.apache.spark.sql.Column hidden = rows.col(hiddenColumn);
    org.apache.spark.sql.Column row = rows.metadataColumn("_metadata").getField("row_index");
    org.apache.spark.sql.Column chunk = functions.shiftright(row, chunkBits).cast("int");
    // Rows after the last chunk use the entry after the last, which hides nothing.
    org.apache.spark.sql.Column last = functions.least(seq(chunk, read(hidden, functions.lit(Integer.valueOf(0)))));
    org.apache.spark.sql.Column start = read(hidden, last.multiply(Integer.valueOf(4)).plus(Integer.valueOf(4)));
    org.apache.spark.sql.Column within = row.bitwiseAND(Integer.valueOf((1 << chunkBits) - 1)).cast("int");
    org.apache.spark.sql.Column word = read(
        hidden, start.plus(functions.shiftright(within, WORD_BITS).multiply(Integer.valueOf(4))));
    org.apache.spark.sql.Column bitIndex = row.bitwiseAND(Integer.valueOf(31)).cast("int");
    org.apache.spark.sql.Column bit = functions.call_function("shiftright", seq(word, bitIndex)).bitwiseAND(Integer.valueOf(1));
    // Without `coalesce` Spark infers that the column is not null, and filters files by that before it has values.
    org.apache.spark.sql.Column isShown =
        functions.coalesce(seq(bit, functions.lit(Integer.valueOf(0)))).equalTo(Integer.valueOf(1));
    return rows.where(shown ? isShown : hidden.isNull().or(bit.equalTo(Integer.valueOf(0))));
  }

  /** The four-byte number at an offset; null if there are no bytes. */
  private static org.apache.spark.sql.Column read(org.apache.spark.sql.Column bytes, org.apache.spark.sql.Column offset) {
    Seq inputs = seq(ExpressionUtils.expression(bytes), ExpressionUtils.expression(offset.cast("int")));
    return ExpressionUtils.column(new StaticInvoke(WritableComparator.class, DataTypes.IntegerType, "readInt", inputs,
        (Seq) Nil$.MODULE$, true, false, true, scala.Option.empty()));
  }

  private static Seq seq(Object first, Object second) {
    return scala.jdk.javaapi.CollectionConverters.asScala(java.util.Arrays.asList(new Object[] {first, second})).toList();
  }
}
