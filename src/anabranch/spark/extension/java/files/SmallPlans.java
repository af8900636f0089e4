package anabranch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.NO_BROADCAST_HASH$;
import org.apache.spark.sql.catalyst.plans.logical.ResolvedHint;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.functions;
import scala.collection.immutable.Seq;

/**
 * Which rows one task computes about as fast as several: those made of little data, by operators that cost little for each row. If they
 * are few, the driver can keep them: then no cache has to be filled and read by jobs of their own.
 */
public final class SmallPlans implements scala.Function0 {
  private static final int LARGE = 0;
  private static final int SMALL = 1;
  private static final int LOCAL = 2;
  private static final long BYTES_MAX = 4L << 20;
  /** So many rows of numbers are sent to Python in one message. */
  private static final int NUMBERS_MAX = 100000;
  private static final Set CHEAP = new HashSet(Arrays.asList(new Object[] {"Project", "Filter", "Join", "Aggregate", "Distinct", "Union",
      "SubqueryAlias", "View", "LogicalRelation", "LocalRelation", "Range", "OneRowRelation", "InMemoryRelation", "ResolvedHint", "Repartition"}));

  private final SparkPlan plan;
  private final int rowsMax;

  private SmallPlans(SparkPlan plan, int rowsMax) {
    this.plan = plan;
    this.rowsMax = rowsMax;
  }

  /**
   * What it takes to compute the frame: `LOCAL` no job, as the driver has its rows, `SMALL` one task, `LARGE` as many tasks as there are.
   * Functions of users may be slow for each row, and are left to all of them.
   */
  public static int kind(org.apache.spark.sql.classic.Dataset frame) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    if (bytes(plan) > BYTES_MAX) return LARGE;
    // To optimize a plan takes milliseconds, for nothing if it is going to be a part of another.
    Seq leaves = plan.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) if (!(leaves.apply(i) instanceof LocalRelation)) return SMALL;
    return frame.queryExecution().optimizedPlan() instanceof LocalRelation ? LOCAL : SMALL;
  }

  /** The bytes of the frame's rows, as far as Spark knows. */
  public static long bytesOf(org.apache.spark.sql.classic.Dataset frame) {
    return size(frame.queryExecution().optimizedPlan());
  }

  /**
   * The rows of a small frame, computed now, by one task, and kept by the driver, as a frame with the same columns.
   *
   * @return null for a frame that is not small, or has more rows than the driver writes by itself
   */
  public static org.apache.spark.sql.classic.Dataset kept(org.apache.spark.sql.classic.Dataset frame) {
    if (bytes(frame.queryExecution().analyzed()) > BYTES_MAX) return null;
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) frame.sparkSession();
    List rows = computed(((org.apache.spark.sql.classic.Dataset) frame.coalesce(1)).queryExecution(), DriverRows.ROWS_MAX);
    if (rows == null) return null;
    Seq kept = scala.jdk.javaapi.CollectionConverters.asScala(rows).toSeq();
    LocalRelation relation = LocalRelation$.MODULE$.apply(frame.queryExecution().analyzed().output(), kept, false, scala.Option.empty());
    return org.apache.spark.sql.classic.Dataset.ofRows(session, relation);
  }

  /**
   * These columns of a small frame, computed now, by one task, as numbers of 64 bits, row after row, the lowest byte first; -1 for NULL.
   *
   * @param columns SQL expressions of whole numbers, separated by NUL
   * @return null for a frame that is not small, or has more rows than one message should have
   */
  public static byte[] numbers(org.apache.spark.sql.classic.Dataset frame, String columns) {
    if (bytes(frame.queryExecution().analyzed()) > BYTES_MAX) return null;
    Column[] wanted = expressions(columns);
    for (int i = 0; i < wanted.length; i++) wanted[i] = wanted[i].cast("bigint");
    List rows = computed(((org.apache.spark.sql.classic.Dataset) frame.select(wanted).coalesce(1)).queryExecution(), NUMBERS_MAX);
    if (rows == null) return null;
    ByteBuffer numbers = ByteBuffer.allocate(rows.size() * wanted.length * 8).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < rows.size(); i++) {
      InternalRow row = (InternalRow) rows.get(i);
      for (int k = 0; k < wanted.length; k++) numbers.putLong(row.isNullAt(k) ? -1 : row.getLong(k));
    }
    return numbers.array();
  }

  /** The same rows, which Spark does not broadcast to join them by a hash table, however few it takes them for. */
  public static org.apache.spark.sql.classic.Dataset notBroadcast(org.apache.spark.sql.classic.Dataset frame) {
    HintInfo hint = new HintInfo(scala.Option.apply(NO_BROADCAST_HASH$.MODULE$));
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) frame.sparkSession();
    return org.apache.spark.sql.classic.Dataset.ofRows(session, new ResolvedHint(frame.logicalPlan(), hint));
  }

  /**
   * The aggregates of each group of the rows. Both lists are SQL expressions, separated by NUL, and each has one at least.
   *
   * @param inOneTask whether one task reads all rows, so that none has to be moved
   */
  public static Object aggregated(org.apache.spark.sql.classic.Dataset rows, boolean inOneTask, String keys, String aggregates) {
    Dataset read = inOneTask ? rows.coalesce(1) : rows;
    Column[] results = expressions(aggregates);
    Column[] others = (Column[]) Arrays.copyOfRange(results, 1, results.length);
    return read.groupBy(expressions(keys)).agg(results[0], others);
  }

  private static Column[] expressions(String texts) {
    String[] parts = texts.split("\0", -1);
    Column[] columns = new Column[parts.length];
    for (int i = 0; i < parts.length; i++) columns[i] = functions.expr(parts[i]);
    return columns;
  }

  /** The rows, without a job where the driver has them; null if there are more. */
  private static List computed(QueryExecution execution, int rowsMax) {
    List rows = DriverRows.of(execution.executedPlan());
    if (rows == null) {
      SmallPlans body = new SmallPlans(execution.executedPlan(), rowsMax);
      Object taken = SQLExecution$.MODULE$.withNewExecutionId(execution, scala.Option.apply("anabranch rows"), body);
      rows = Arrays.asList((InternalRow[]) taken);
    }
    return rows.size() > rowsMax ? null : rows;
  }

  public Object apply() {
    return plan.executeTake(rowsMax + 1);
  }

  /** The bytes that the plan reads; more than any limit for other plans. */
  private static long bytes(LogicalPlan plan) {
    if (!CHEAP.contains(plan.nodeName()) || callsUsers(plan) || !plan.subqueries().isEmpty()) return Long.MAX_VALUE;
    if (plan instanceof InMemoryRelation) return bytes(((InMemoryRelation) plan).cacheBuilder().logicalPlan());
    Seq children = plan.children();
    if (children.isEmpty()) return size(plan);
    long sum = 0;
    for (int i = 0; i < children.size() && sum <= BYTES_MAX; i++) {
      long below = bytes((LogicalPlan) children.apply(i));
      sum = below > BYTES_MAX ? Long.MAX_VALUE : sum + below;
    }
    return sum;
  }

  private static boolean callsUsers(LogicalPlan plan) {
    return plan.containsPattern(TreePattern$.MODULE$.SCALA_UDF()) || plan.containsPattern(TreePattern$.MODULE$.PYTHON_UDF());
  }

  private static long size(LogicalPlan plan) {
    scala.math.BigInt size = plan.stats().sizeInBytes();
    return size.isValidLong() ? size.toLong() : Long.MAX_VALUE;
  }
}
