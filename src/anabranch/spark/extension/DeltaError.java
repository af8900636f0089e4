package delta;

/**
 * An error of ours as the JVM sees it: condition, SQLSTATE, message. By its number Python finds its own error again.
 * Of the kinds that PySpark knows it is one that Spark itself neither catches nor copies.
 */
public class DeltaError extends UnsupportedOperationException implements org.apache.spark.SparkThrowable {
  private static final String TOLD = "anabranch";
  private static final int CAUSES_MAX = 100;
  private static final java.util.Set PASSING =
      java.util.Collections.synchronizedSet(java.util.Collections.newSetFromMap(new java.util.WeakHashMap()));
  private final String condition;
  private final String sqlState;
  private final int number;
  private final java.util.Map told;

  public DeltaError(String condition, String sqlState, String message, int number) {
    this(condition, sqlState, message, number, null);
  }

  /** @param told the error for clients that may find it again, or null */
  public DeltaError(String condition, String sqlState, String message, int number, String told) {
    super(condition.isEmpty() ? message : "[" + condition + "] " + message + " SQLSTATE: " + sqlState);
    this.condition = condition.isEmpty() ? null : condition;
    this.sqlState = sqlState.isEmpty() ? null : sqlState;
    this.number = number;
    this.told = told == null ? java.util.Collections.emptyMap() : java.util.Collections.singletonMap(TOLD, told);
  }

  /** The same, as delta-spark's exception of that name, where a server has such for its clients. */
  public static DeltaError of(String name, String condition, String sqlState, String message, int number, String told) {
    try {
      Class found = Class.forName("io.delta.exceptions." + name);
      if (DeltaError.class.isAssignableFrom(found)) {
        Object[] facts = {condition, sqlState, message, Integer.valueOf(number), told};
        return (DeltaError) found.getConstructors()[0].newInstance(facts);
      }
    } catch (ReflectiveOperationException absent) {
      // No server, or no name of delta-spark's.
    }
    return new DeltaError(condition, sqlState, message, number, told);
  }

  /** What a session says that has our classes and nobody to ask. */
  public static DeltaError disabled() {
    return new DeltaError("ANABRANCH_NOT_ENABLED", "55000",
        "This session does not know Delta tables (any more). Call anabranch.enable(spark) and make the DataFrame anew.", 0);
  }

  /**
   * What Python needs to raise its own error for one of the JVM's, or null where it has none: the number of an error of ours that
   * is the error or among its causes; or of a data file that could not be read or written the condition, the path and the reason,
   * parted by NUL. What ends a stream stays Spark's own.
   */
  public static String told(Throwable error) {
    if (error instanceof org.apache.spark.sql.streaming.StreamingQueryException) return null;
    for (int i = 0; i < CAUSES_MAX && error != null; i++) {
      if (error instanceof DeltaError) return String.valueOf(((DeltaError) error).number);
      if (error instanceof DeltaAnalysisError) return String.valueOf(((DeltaAnalysisError) error).number());
      String condition = error instanceof org.apache.spark.SparkThrowable ? ((org.apache.spark.SparkThrowable) error).getCondition() : null;
      if (condition != null && (condition.startsWith("FAILED_READ_FILE") || condition.equals("TASK_WRITE_FAILED"))) {
        Throwable reason = reason(error);
        boolean written = condition.equals("TASK_WRITE_FAILED");
        // Rows are computed while they are written: what fails then may be anything.
        if (written && !(reason instanceof java.io.IOException)) return null;
        return condition + '\0' + ((org.apache.spark.SparkThrowable) error).getMessageParameters().get("path") + '\0' + reason.getMessage();
      }
      error = error.getCause();
    }
    return null;
  }

  /** Why no data file could be written, where that ended a job of ours; null where it was something else. */
  public static String unwritten(Throwable error) {
    Throwable reason = reason(error);
    if (!(reason instanceof java.io.IOException)) return null;
    StackTraceElement[] frames = reason.getStackTrace();
    for (int i = 0; i < frames.length; i++) {
      if (frames[i].getClassName().endsWith(".ParquetOutputWriter")) return String.valueOf(reason.getMessage());
    }
    return null;
  }

  /** An error that an answer of Python's ended with, on its way through Spark. */
  static Throwable passing(Throwable error) {
    PASSING.add(error);
    return error;
  }

  /**
   * Whether the error, not one of ours, ended an answer. Then it loses frames: all of an interruption, else those from the first of
   * Py4J's on, which are the way in, once for each question. Spark looks through their text when a stream stops, by an expression
   * that takes several frames of the thread for each character.
   */
  public static boolean shortened(Throwable error) {
    boolean passed = false;
    Throwable each = error;
    for (int i = 0; i < CAUSES_MAX && each != null && !passed; i++) {
      passed = PASSING.contains(each);
      each = each.getCause();
    }
    if (passed) cut(error, isInterruption(error), 0);
    return passed;
  }

  private static void cut(Throwable error, boolean interrupted, int depth) {
    if (error == null || depth > CAUSES_MAX) return;
    StackTraceElement[] frames = error.getStackTrace();
    int kept = 0;
    while (!interrupted && kept < frames.length && !frames[kept].getClassName().startsWith("py4j.")) kept++;
    error.setStackTrace((StackTraceElement[]) java.util.Arrays.copyOf(frames, kept));
    Throwable[] suppressed = error.getSuppressed();
    for (int i = 0; i < suppressed.length; i++) cut(suppressed[i], interrupted, depth + 1);
    cut(error.getCause(), interrupted, depth + 1);
  }

  private static boolean isInterruption(Throwable error) {
    for (int i = 0; i < CAUSES_MAX && error != null; i++) {
      if (error instanceof InterruptedException || error instanceof java.io.InterruptedIOException) return true;
      if (error instanceof java.nio.channels.ClosedByInterruptException) return true;
      boolean known = error instanceof org.apache.spark.SparkThrowable;
      if (known && "SPARK_JOB_CANCELLED".equals(((org.apache.spark.SparkThrowable) error).getCondition())) return true;
      error = error.getCause();
    }
    return false;
  }

  private static Throwable reason(Throwable error) {
    for (int i = 0; i < CAUSES_MAX && error.getCause() != null; i++) error = error.getCause();
    return error;
  }

  /** Where it was made says nothing: Python raised it, and knows where. Clients of a server would be shown a hundred lines. */
  public Throwable fillInStackTrace() {
    return this;
  }

  public void setStackTrace(StackTraceElement[] ofCaller) {}

  public int number() {
    return number;
  }

  public String getCondition() {
    return condition;
  }

  public java.util.Map getMessageParameters() {
    return told;
  }

  public String getErrorClass() {
    return condition;
  }

  public String getSqlState() {
    return sqlState;
  }
}
