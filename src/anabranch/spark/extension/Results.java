package delta;

import org.apache.spark.sql.RowFactory;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Results of commands. */
public final class Results {
  private Results() {}

  /** One row of numbers, which are given with commas between them: Py4J would make ints of small ones. */
  public static Seq numbers(String given) {
    String[] parts = given.split(",");
    Object[] values = new Object[parts.length];
    for (int i = 0; i < parts.length; i++) values[i] = Long.valueOf(parts[i]);
    return (Seq) Nil$.MODULE$.$colon$colon(RowFactory.create(values));
  }
}
