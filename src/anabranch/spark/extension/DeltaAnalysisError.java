package delta;

import scala.Option;
import scala.collection.immutable.Map$;

/**
 * What `DeltaError` is, for errors that are Spark's AnalysisException to Python, too: clients of a server know an error by the names
 * of its classes alone. Spark throws such on with a place in a statement, as a copy; this one stays what it is.
 */
public final class DeltaAnalysisError extends org.apache.spark.sql.AnalysisException {
  private final DeltaError error;

  public DeltaAnalysisError(String condition, String sqlState, String message, int number, String told) {
    this(new DeltaError(condition, sqlState, message, number, told));
  }

  private DeltaAnalysisError(DeltaError error) {
    super(error.getMessage(), Option.empty(), Option.empty(), Option.empty(), Option.apply(error.getCondition()),
        (scala.collection.immutable.Map) Map$.MODULE$.empty(), new org.apache.spark.QueryContext[0]);
    this.error = error;
  }

  /** The same, for where an AnalysisException would not stay what it is. */
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

  /** Where it was made says nothing: Python raised it, and knows where. */
  public Throwable fillInStackTrace() {
    return this;
  }

  public void setStackTrace(StackTraceElement[] ofCaller) {}
}
