package delta;

import scala.Option;
import scala.collection.immutable.Map$;

/**
 * A `DeltaError` for errors that are an AnalysisException in Python: clients of a server recognize an error only by the names of its
 * classes. Spark copies such exceptions to add a position in a statement; this class returns itself instead.
 */
public final class DeltaAnalysisError extends org.apache.spark.sql.AnalysisException {
  private final DeltaError error;

  public DeltaAnalysisError(String condition, String sqlState, String message, int number, String text) {
    this(new DeltaError(condition, sqlState, message, number, text));
  }

  private DeltaAnalysisError(DeltaError error) {
    super(error.getMessage(), Option.empty(), Option.empty(), Option.empty(), Option.apply(error.getCondition()),
        (scala.collection.immutable.Map) Map$.MODULE$.empty(), new org.apache.spark.QueryContext[0]);
    this.error = error;
  }

  /** The same error, for code where an AnalysisException would be wrapped. */
  public DeltaError unchecked() {
    return error;
  }

  public int number() {
    return error.number();
  }

  public String getMessage() {
    return error.getMessage();
  }

  public String getSimpleMessage() {
    return error.getMessage();
  }

  public String getCondition() {
    return error.getCondition();
  }

  public String getErrorClass() {
    return error.getCondition();
  }

  public String getSqlState() {
    return error.getSqlState();
  }

  public java.util.Map getMessageParameters() {
    return error.getMessageParameters();
  }

  public org.apache.spark.sql.AnalysisException withPosition(org.apache.spark.sql.catalyst.trees.Origin origin) {
    return this;
  }

  /** No stack trace: Python raised the error, and has its own. */
  public Throwable fillInStackTrace() {
    return this;
  }

  public void setStackTrace(StackTraceElement[] ofCaller) {}
}
