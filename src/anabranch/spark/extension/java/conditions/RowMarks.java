package anabranch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.execution.WholeStageCodegenExec$;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.util.CollectionAccumulator;
import org.roaringbitmap.RoaringBitmap;

/**
 * Marks rows of data files while a job computes them for another purpose, such as to write them: see `row_marks.py`.
 *
 * Each task reports its marks when it ends, and Spark counts only the reports of tasks that have succeeded.
 */
public final class RowMarks {
  private final CollectionAccumulator reports = new CollectionAccumulator();
  private final Dataset rows;
  private volatile boolean isUnmarked;

  /** The parameters are the expressions of `MarkRow` as SQL. */
  public RowMarks(org.apache.spark.sql.classic.Dataset frame, String file, String group, String position, String condition) {
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) frame.sparkSession();
    session.sparkContext().register(reports);
    this.rows = frame.where(ExpressionUtils.column(new MarkRow(parsed(file), parsed(group), parsed(position), parsed(condition), this)));
  }

  /** Whether Spark generates code for operators with the columns of the frame, in which alone rows are marked. */
  public static boolean canMark(org.apache.spark.sql.classic.Dataset frame) {
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) frame.sparkSession()).sessionState().conf();
    return conf.wholeStageEnabled() && !WholeStageCodegenExec$.MODULE$.isTooManyFields(conf, frame.schema());
  }

  private static Expression parsed(String text) {
    return ExpressionUtils.expression(functions.expr(text));
  }

  /** The rows for which the condition is true. All rows of the frame are marked when these are computed. */
  public Dataset rows() {
    return rows;
  }

  /**
   * The marks of the rows that have been computed.
   *
   * @return for each file, group and 32 bits of positions five numbers of 64 bits, the lowest byte first: the file, or -1, the group, or -2
   *     for null, the higher bits of the positions, how many rows there were, and the bytes of a Roaring bitmap of the lower bits, which
   *     follow. Null if the rows were not marked.
   */
  public byte[] marks() throws java.io.IOException {
    List all = reports.value();
    if (all.isEmpty() && isUnmarked) return null;
    Map counts = new HashMap();
    Map positions = new HashMap();
    Set partitions = new HashSet();
    for (int i = 0; i < all.size(); i++) {
      Object[] report = (Object[]) all.get(i);
      // A task that Spark runs again, for rows that an executor has lost, reports again.
      if (partitions.add(report[0])) add(counts, positions, (Map) report[1]);
    }
    return encoded(counts, positions);
  }

  private static void add(Map counts, Map positions, Map marks) {
    Object[] keys = marks.keySet().toArray();
    for (int i = 0; i < keys.length; i++) {
      Object[] entry = (Object[]) marks.get(keys[i]);
      long[] count = (long[]) counts.get(keys[i]);
      long added = ((long[]) entry[0])[0];
      counts.put(keys[i], new long[] {count == null ? added : count[0] + added});
      RoaringBitmap before = (RoaringBitmap) positions.get(keys[i]);
      positions.put(keys[i], before == null ? (RoaringBitmap) entry[1] : RoaringBitmap.or(before, (RoaringBitmap) entry[1]));
    }
  }

  private static byte[] encoded(Map counts, Map positions) throws java.io.IOException {
    java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
    List keys = new ArrayList(counts.keySet());
    for (int i = 0; i < keys.size(); i++) {
      long key = ((Long) keys.get(i)).longValue();
      RoaringBitmap marked = (RoaringBitmap) positions.get(keys.get(i));
      marked.runOptimize();
      ByteBuffer numbers = ByteBuffer.allocate(40 + marked.serializedSizeInBytes()).order(ByteOrder.LITTLE_ENDIAN);
      numbers.putLong((key >>> 32) - 1).putLong((key >>> 16 & 0xFFFF) - 2).putLong(key & 0xFFFF);
      numbers.putLong(((long[]) counts.get(keys.get(i)))[0]).putLong(marked.serializedSizeInBytes());
      marked.serialize(numbers);
      bytes.write(numbers.array());
    }
    return bytes.toByteArray();
  }

  /** Code of the key under which a row is marked: the id of its file and one, its group and two, and the higher bits of its position. */
  static String key(ExprCode file, ExprCode group, ExprCode position) {
    return "(" + file.isNull() + " ? 0L : " + file.value() + " + 1L) << 32"
        + " | (" + group.isNull() + " ? 0L : " + group.value() + " + 2L) << 16"
        + " | (" + file.isNull() + " ? 0L : (long) " + position.value() + " >>> 32)";
  }

  CollectionAccumulator reports() {
    return reports;
  }

  /** Note that executors may have got the condition alone. */
  void noteUnmarked() {
    isUnmarked = true;
  }
}
