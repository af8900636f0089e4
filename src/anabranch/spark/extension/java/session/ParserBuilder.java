package anabranch;

/** A function for SparkSessionExtensions that makes the parser of later sessions. */
public class ParserBuilder extends scala.runtime.AbstractFunction2 {
  private final String ours;

  public ParserBuilder(String ours) {
    this.ours = ours;
  }

  public Object apply(Object session, Object parser) {
    Sessions.made((org.apache.spark.sql.classic.SparkSession) session);
    return DeltaParser.around(parser, ours, (org.apache.spark.sql.classic.SparkSession) session);
  }
}
