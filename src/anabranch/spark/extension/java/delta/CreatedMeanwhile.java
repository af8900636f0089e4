package delta;

import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import scala.Option;
import scala.collection.immutable.Map$;

/**
 * Another writer created the table while CREATE TABLE was running. The statement fails with `error`, unless it has IF NOT EXISTS:
 * only Spark knows that, and accepts an error of this class.
 */
public final class CreatedMeanwhile extends TableAlreadyExistsException {
  private final DeltaError error;

  public CreatedMeanwhile(String table, DeltaError error) {
    super("TABLE_OR_VIEW_ALREADY_EXISTS", named(table), Option.apply(error));
    this.error = error;
  }

  private static scala.collection.immutable.Map named(String table) {
    return (scala.collection.immutable.Map) ((scala.collection.immutable.Map) Map$.MODULE$.empty()).updated("relationName", table);
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
