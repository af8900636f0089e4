package anabranch;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.SparkPlan;

/** A Bloom filter of keys, made by the driver and looked up by `MayHaveKey`: see `key_filter.py`. Its bytes do not go through Python. */
public final class KeyFilter implements scala.Function0 {
  private static final int BITS_OF_KEY = 32;
  /** In fewer bits few hashes have bits of their own: all of them are decided by two. */
  private static final int BITS_MIN = 1 << 16;

  private final SparkPlan plan;
  private final byte[] bits;

  /** Runs a frame whose only column is the hash of a key, 64 bits that are not null. */
  public KeyFilter(org.apache.spark.sql.classic.Dataset hashes) {
    QueryExecution execution = hashes.queryExecution();
    this.plan = execution.executedPlan();
    scala.Tuple2 counted = (scala.Tuple2) SQLExecution$.MODULE$.withNewExecutionId(execution, scala.Option.apply("anabranch keys"), this);
    long count = ((Long) counted._1()).longValue();
    // A power of two: up to twice as many bits as each key should have.
    long size = Math.max(BITS_MIN, Long.highestOneBit(Math.max(1, count - 1)) * 2 * BITS_OF_KEY);
    this.bits = new byte[(int) (size / 8)];
    // They are decoded one by one: as objects, all of them would take many times the memory of the filter.
    scala.collection.Iterator rows = (scala.collection.Iterator) counted._2();
    while (rows.hasNext()) MayHaveKey.add(bits, ((InternalRow) rows.next()).getLong(0));
  }

  public Object apply() {
    return plan.executeCollectIterator();
  }

  /** Whether the filter may be made of that hash, among others. */
  public org.apache.spark.sql.Column mayHave(org.apache.spark.sql.Column hash) {
    return ExpressionUtils.column(new MayHaveKey(ExpressionUtils.expression(hash), bits));
  }
}
