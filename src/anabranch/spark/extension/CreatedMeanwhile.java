package delta;

import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import scala.Option;
import scala.collection.immutable.Map$;

/**
 * Somebody else made the table while CREATE TABLE was at work. The statement loses to that by `error`; by this class Spark, which
 * alone knows of IF NOT EXISTS, lets it pass.
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

  /** Where it was made says nothing: Python raised it, and knows where. */
  public Throwable fillInStackTrace() {
    return this;
  }

  public void setStackTrace(StackTraceElement[] ofCaller) {}
}
