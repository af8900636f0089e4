package delta;

import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;

/** A function of a query's FROM, such as `table_changes`: from its arguments to the plan of its rows. */
public final class TableFunction extends scala.runtime.AbstractFunction1 {
  private final String name;

  public TableFunction(String name) {
    this.name = name;
  }

  public Object apply(Object arguments) {
    return Python.ask("table function", new Object[] {org.apache.spark.sql.classic.SparkSession.active(), name, arguments});
  }

  /** As SparkSessionExtensions takes it. */
  public scala.Tuple3 injected() {
    return new scala.Tuple3(new FunctionIdentifier(name), new ExpressionInfo("delta.TableFunction", name), this);
  }
}
