package anabranch;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics$;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.storage.BlockInfo$;
import scala.collection.immutable.Seq;

/**
 * The tasks of a small plan, executed by the calling thread, without a job for so little.
 *
 * The operators are Spark's own. A plan that reads very little is executed without generated code, since to generate it, to compile it for
 * the values in a condition, and to run it cold takes longer than to interpret the plan for a few thousand rows.
 */
final class DriverTask implements scala.Function0 {
  private static final long INTERPRETED_BYTES_MAX = 512L << 10;
  /** Of rows that the driver has, for a join, which may pair each with each of the others. */
  private static final int INTERPRETED_ROWS_MAX = 1000;
  private static final Set STAGES = new HashSet(Arrays.asList(new Object[] {"WholeStageCodegenExec", "InputAdapter"}));
  private static final Set OPERATORS = new HashSet(Arrays.asList(new Object[] {"FileSourceScanExec", "ColumnarToRowExec", "FilterExec",
      "ProjectExec", "LocalTableScanExec", "CoalesceExec", "UnionExec", "ShuffledHashJoinExec"}));
  /** Numbers by which Spark counts memory; those of tasks are not negative. */
  private static final AtomicLong NUMBERS = new AtomicLong(Long.MIN_VALUE);

  private final SparkPlan plan;
  private final int rowsMax;

  private DriverTask(SparkPlan plan, int rowsMax) {
    this.plan = plan;
    this.rowsMax = rowsMax;
  }

  /**
   * The first rows of the plan, no more than that.
   *
   * @param bytes how much the plan reads
   * @return null for a plan of other operators, and where a task fails: a job then reports why, as for all other plans
   */
  static List rows(SparkPlan plan, long bytes, int rowsMax) {
    SparkPlan operators = operators(plan);
    if (!isExecutable(operators) || TaskContext.get() != null) return null;
    boolean interpreted = bytes <= INTERPRETED_BYTES_MAX && rowsMax(operators) <= INTERPRETED_ROWS_MAX;
    SQLConf settings = plan.session().sessionState().conf().clone();
    if (interpreted) settings.setConfString("spark.sql.codegen.factoryMode", "NO_CODEGEN");
    try {
      SparkPlan executed = interpreted ? interpreted(operators) : compiled(plan);
      return (List) SQLConf$.MODULE$.withExistingConf(settings, new DriverTask(executed, rowsMax));
    } catch (Exception failure) {
      return null;
    }
  }

  /** The rows of a plan whose rows are all made of a few that the driver has, by joins and filters; null for others. */
  static List ofFewRows(SparkPlan plan, int rowsMax) {
    SparkPlan operators = operators(plan);
    return isExecutable(operators) && !reads(operators) && rowsMax(operators) <= INTERPRETED_ROWS_MAX ? rows(plan, 0, rowsMax) : null;
  }

  /** The operators of the plan: an adaptive one has them before it has run, as no stage of another job is below them. */
  private static SparkPlan operators(SparkPlan plan) {
    return plan instanceof AdaptiveSparkPlanExec ? ((AdaptiveSparkPlanExec) plan).initialPlan() : plan;
  }

  private static SparkPlan compiled(SparkPlan plan) {
    return plan instanceof AdaptiveSparkPlanExec ? ((AdaptiveSparkPlanExec) plan).finalPhysicalPlan() : plan;
  }

  private static boolean isExecutable(SparkPlan plan) {
    String name = plan.getClass().getSimpleName();
    if (!STAGES.contains(name) && !OPERATORS.contains(name) || !plan.subqueries().isEmpty() || callsUsers(plan)) return false;
    if (plan instanceof LocalTableScanExec && ((LocalTableScanExec) plan).stream().isDefined()) return false;
    for (int i = 0; i < plan.children().size(); i++) if (!isExecutable((SparkPlan) plan.children().apply(i))) return false;
    return true;
  }

  /** Functions of users may be slow for each row, and are left to all tasks. */
  private static boolean callsUsers(SparkPlan plan) {
    Seq expressions = plan.expressions();
    for (int i = 0; i < expressions.size(); i++)
      if (((Expression) expressions.apply(i)).containsPattern(TreePattern$.MODULE$.SCALA_UDF())) return true;
    return false;
  }

  private static boolean reads(SparkPlan plan) {
    if (plan.children().isEmpty()) return !(plan instanceof LocalTableScanExec);
    for (int i = 0; i < plan.children().size(); i++) if (reads((SparkPlan) plan.children().apply(i))) return true;
    return false;
  }

  /** The number of rows of the largest leaf that the driver has. */
  private static int rowsMax(SparkPlan plan) {
    if (plan instanceof LocalTableScanExec) return ((LocalTableScanExec) plan).rows().size();
    int most = 0;
    for (int i = 0; i < plan.children().size(); i++) most = Math.max(most, rowsMax((SparkPlan) plan.children().apply(i)));
    return most;
  }

  /** The plan without operators that generate code for those below them. */
  private static SparkPlan interpreted(SparkPlan plan) {
    if (STAGES.contains(plan.getClass().getSimpleName())) return interpreted((SparkPlan) plan.children().apply(0));
    if (plan.children().isEmpty()) return plan;
    List children = new ArrayList();
    for (int i = 0; i < plan.children().size(); i++) {
      SparkPlan child = interpreted((SparkPlan) plan.children().apply(i));
      // An adaptive plan has these operators only when it runs.
      boolean inBatches = child.supportsColumnar() && child.children().isEmpty() && !(plan instanceof ColumnarToRowExec);
      children.add(inBatches ? new ColumnarToRowExec(child) : child);
    }
    return (SparkPlan) plan.withNewChildren(FileWriteArguments.seq(children));
  }

  public Object apply() {
    try {
      return executed();
    } catch (Throwable failure) {
      org.apache.spark.unsafe.Platform.throwException(failure);
      return null;
    }
  }

  private List executed() throws Throwable {
    RDD rows = plan.execute();
    TaskMemoryManager memory = new TaskMemoryManager(memoryOfTasks(), NUMBERS.incrementAndGet());
    TaskContextImpl context = context(memory);
    TaskContext$.MODULE$.setTaskContext(context);
    try {
      return completed(context, rows);
    } finally {
      TaskContext$.MODULE$.unset();
      memory.cleanUpAllAllocatedMemory();
    }
  }

  /** In a method of its own: for nested blocks with `finally` Spark's compiler generates code that the JVM refuses. */
  private List completed(TaskContextImpl context, RDD rows) {
    try {
      List first = new ArrayList();
      for (int i = 0; i < rows.getNumPartitions(); i++) {
        scala.collection.Iterator next = rows.iterator(rows.partitions()[i], context);
        while (first.size() < rowsMax && next.hasNext()) first.add(((InternalRow) next.next()).copy());
      }
      return first;
    } finally {
      context.markTaskCompleted(scala.Option.empty());
    }
  }

  private static TaskContextImpl context(TaskMemoryManager memory) throws ReflectiveOperationException {
    Constructor constructor = TaskContextImpl.class.getConstructors()[0];
    // A whole number up to Spark 4.2.
    Object cores = constructor.getParameterTypes()[10] == Integer.TYPE ? (Object) Integer.valueOf(1) : scala.math.BigDecimal$.MODULE$.apply(1);
    Integer zero = Integer.valueOf(0);
    // Threads of the driver lock blocks, such as those of broadcasts, by this number.
    Long attempt = Long.valueOf(BlockInfo$.MODULE$.NON_TASK_WRITER());
    return (TaskContextImpl) constructor.newInstance(new Object[] {zero, zero, zero, attempt, zero, Integer.valueOf(1), memory,
        new Properties(), null, TaskMetrics$.MODULE$.empty(), cores, PlanFunctions.scalaMap(new java.util.HashMap())});
  }

  /**
   * The memory of tasks in this JVM.
   *
   * By handles, since Spark 4.3 ships without a library that other methods of the class name: neither the compiler nor reflection loads it.
   */
  private static MemoryManager memoryOfTasks() throws Throwable {
    Class environment = Class.forName("org.apache.spark.SparkEnv");
    MethodHandles.Lookup lookup = MethodHandles.publicLookup();
    Object current = lookup.findStatic(environment, "get", MethodType.methodType(environment)).invokeWithArguments(new Object[0]);
    return (MemoryManager) lookup.findVirtual(environment, "memoryManager", MethodType.methodType(MemoryManager.class))
        .invokeWithArguments(new Object[] {current});
  }
}
