package anabranch;

import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;

/** A table function, such as `table_changes`: it returns the plan of its rows for its arguments. */
public final class TableFunction extends scala.runtime.AbstractFunction1 {
  private final String name;

  public TableFunction(String name) {
    this.name = name;
  }

  public Object apply(Object arguments) {
    return PythonCallbacks.rowsOfFunction(org.apache.spark.sql.classic.SparkSession.active(), name, arguments);
  }

  /** The function as an argument for SparkSessionExtensions. */
  public scala.Tuple3 injected() {
    return new scala.Tuple3(new FunctionIdentifier(name), new ExpressionInfo("anabranch.TableFunction", name), this);
  }
}
