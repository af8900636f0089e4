package delta;

/**
 * An error of ours in the JVM: condition, SQLSTATE, message. Python finds its own error by the number.
 * Among the exceptions that PySpark converts, this kind is neither caught nor copied by Spark.
 */
public class DeltaError extends UnsupportedOperationException implements org.apache.spark.SparkThrowable {
  private static final String TEXT = "anabranch";
  private static final int CAUSES_MAX = 100;
  private static final java.util.Set PASSING =
      java.util.Collections.synchronizedSet(java.util.Collections.newSetFromMap(new java.util.WeakHashMap()));
  private final String condition;
  private final String sqlState;
  private final int number;
  private final java.util.Map parameters;

  public DeltaError(String condition, String sqlState, String message, int number) {
    this(condition, sqlState, message, number, null);
  }

  /** @param text the error as text, from which clients make it again, or null */
  public DeltaError(String condition, String sqlState, String message, int number, String text) {
    super(condition.isEmpty() ? message : "[" + condition + "] " + message + " SQLSTATE: " + sqlState);
    this.condition = condition.isEmpty() ? null : condition;
    this.sqlState = sqlState.isEmpty() ? null : sqlState;
    this.number = number;
    this.parameters = text == null ? java.util.Collections.emptyMap() : java.util.Collections.singletonMap(TEXT, text);
  }

  /** The same, as delta-spark's exception of that name, if a server has such classes for its clients. */
  public static DeltaError of(String name, String condition, String sqlState, String message, int number, String text) {
    try {
      Class errorClass = Class.forName("io.delta.exceptions." + name);
      if (DeltaError.class.isAssignableFrom(errorClass)) {
        Object[] arguments = {condition, sqlState, message, Integer.valueOf(number), text};
        return (DeltaError) errorClass.getConstructors()[0].newInstance(arguments);
      }
    } catch (ReflectiveOperationException absent) {
      // No server, or no name of delta-spark's.
    }
    return new DeltaError(condition, sqlState, message, number, text);
  }

  /** The error of a session that has our classes while Python takes no calls. */
  public static DeltaError disabled() {
    return new DeltaError("ANABRANCH_NOT_ENABLED", "55000",
        "This session does not know Delta tables (any more). Call anabranch.enable(spark) and create the DataFrame again.", 0);
  }

  /**
   * A text from which Python makes its own error for one of the JVM, or null if it has none. It is the number of an error of ours that
   * is the error or among its causes, or, for a data file that could not be read or written, the condition, the path and the
   * reason, separated by NUL. The error that ends a stream stays Spark's own.
   */
  public static String origin(Throwable error) {
    if (error instanceof org.apache.spark.sql.streaming.StreamingQueryException) return null;
    for (int i = 0; i < CAUSES_MAX && error != null; i++) {
      if (error instanceof DeltaError) return String.valueOf(((DeltaError) error).number);
      if (error instanceof DeltaAnalysisError) return String.valueOf(((DeltaAnalysisError) error).number());
      String condition = error instanceof org.apache.spark.SparkThrowable ? ((org.apache.spark.SparkThrowable) error).getCondition() : null;
      if (condition != null && (condition.startsWith("FAILED_READ_FILE") || condition.equals("TASK_WRITE_FAILED"))) {
        Throwable reason = reason(error);
        boolean written = condition.equals("TASK_WRITE_FAILED");
        // Rows are computed while they are written: any other failure may be from that.
        if (written && !(reason instanceof java.io.IOException)) return null;
        return condition + '\0' + ((org.apache.spark.SparkThrowable) error).getMessageParameters().get("path") + '\0' + reason.getMessage();
      }
      error = error.getCause();
    }
    return null;
  }

  /** The reason why a data file could not be written, if that ended a job of ours; null for other failures. */
  public static String unwritten(Throwable error) {
    Throwable reason = reason(error);
    if (!(reason instanceof java.io.IOException)) return null;
    StackTraceElement[] frames = reason.getStackTrace();
    for (int i = 0; i < frames.length; i++) {
      if (frames[i].getClassName().endsWith(".ParquetOutputWriter")) return String.valueOf(reason.getMessage());
    }
    return null;
  }

  /** Remembers an error that ended a callback, and is thrown into Spark. */
  public static Throwable passing(Throwable error) {
    PASSING.add(error);
    return error;
  }

  /**
   * Whether the error, not one of ours, ended a callback. Its stack trace is then shortened: all frames of an interruption are
   * removed, else those from the first of Py4J's on, which repeat for each callback. When a stream stops, Spark matches their text
   * by a regular expression that needs several stack frames for each character.
   */
  public static boolean shortened(Throwable error) {
    boolean passed = false;
    Throwable cause = error;
    for (int i = 0; i < CAUSES_MAX && cause != null && !passed; i++) {
      passed = PASSING.contains(cause);
      cause = cause.getCause();
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
      boolean isSparks = error instanceof org.apache.spark.SparkThrowable;
      if (isSparks && "SPARK_JOB_CANCELLED".equals(((org.apache.spark.SparkThrowable) error).getCondition())) return true;
      error = error.getCause();
    }
    return false;
  }

  private static Throwable reason(Throwable error) {
    for (int i = 0; i < CAUSES_MAX && error.getCause() != null; i++) error = error.getCause();
    return error;
  }

  /** No stack trace: Python raised the error, and has its own. Clients of a server would see a hundred lines. */
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
    return parameters;
  }

  public String getErrorClass() {
    return condition;
  }

  public String getSqlState() {
    return sqlState;
  }
}
