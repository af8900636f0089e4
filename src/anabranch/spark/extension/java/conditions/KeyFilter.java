package anabranch;

import java.util.Arrays;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.BloomFilterMightContain;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.aggregate.BloomFilterAggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.DataType;

/** A Bloom filter of keys, made and asked by expressions of Spark: see `key_filter.py`. Its bytes do not go through Python. */
public final class KeyFilter {
  private static final int TASKS_MAX = 64;
  private static final long ROWS_BYTES_MAX = 512L << 20;

  private final Bits bits;
  private final org.apache.spark.sql.Dataset others;

  /** Runs a frame of one row, whose last column is by `aggregate`. */
  public KeyFilter(org.apache.spark.sql.classic.Dataset aggregates) {
    Row[] rows = (Row[]) aggregates.collect();
    int last = aggregates.schema().length() - 1;
    this.bits = new Bits((byte[]) rows[0].get(last));
    org.apache.spark.sql.Dataset kept = aggregates.sparkSession().createDataFrame(Arrays.asList(rows), aggregates.schema());
    this.others = kept.drop(aggregates.columns()[last]);
  }

  /** Whether the rows are of few tasks, each of which makes a whole filter. What rows in a cache shuffle is computed now. */
  public static boolean isWorth(org.apache.spark.sql.classic.Dataset rows) {
    LogicalPlan plan = rows.queryExecution().analyzed();
    if (plan instanceof InMemoryRelation)
      return ((InMemoryRelation) plan).cacheBuilder().cachedColumnBuffers().getNumPartitions() <= TASKS_MAX;
    if (plan instanceof LogicalRDD) return ((LogicalRDD) plan).rdd().getNumPartitions() <= TASKS_MAX;
    scala.math.BigInt size = rows.queryExecution().optimizedPlan().stats().sizeInBytes();
    return size.isValidLong() && size.toLong() <= ROWS_BYTES_MAX;
  }

  /** The filter of all hashes that are not null, with that many bits, best for so many hashes. */
  public static org.apache.spark.sql.Column aggregate(org.apache.spark.sql.Column hash, long hashes, long bits) {
    BloomFilterAggregate filter = new BloomFilterAggregate(ExpressionUtils.expression(hash),
        Literal$.MODULE$.apply(Long.valueOf(hashes)), Literal$.MODULE$.apply(Long.valueOf(bits)));
    return ExpressionUtils.column(filter.toAggregateExpression());
  }

  /** The row without the filter. */
  public org.apache.spark.sql.Dataset others() {
    return others;
  }

  /** Whether the filter may be made of that hash, among others. */
  public org.apache.spark.sql.Column mayHave(org.apache.spark.sql.Column hash) {
    return ExpressionUtils.column(new BloomFilterMightContain(bits, ExpressionUtils.expression(hash)));
  }

  /** The bytes of a filter: a megabyte, which Spark neither compares nor prints while it changes plans. */
  static final class Bits extends Literal {
    Bits(byte[] filter) {
      super(filter, (DataType) BinaryType$.MODULE$);
    }

    /** Executors, which do not have this class, get one of Spark: see `IsLive`. */
    protected Object writeReplace() {
      return new Literal(value(), dataType());
    }

    public boolean equals(Object other) {
      return this == other;
    }

    public int hashCode() {
      return System.identityHashCode(this);
    }

    public String toString() {
      return "key filter";
    }

    public String sql() {
      return "key filter";
    }
  }
}
