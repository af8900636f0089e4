package delta;

/** A function for SparkSessionExtensions that makes the parser of later sessions. */
public class LaterParsers extends scala.runtime.AbstractFunction2 {
  private final String ours;

  public LaterParsers(String ours) {
    this.ours = ours;
  }

  public Object apply(Object session, Object parser) {
    Sessions.made((org.apache.spark.sql.classic.SparkSession) session);
    return Parse.around(parser, ours);
  }
}
