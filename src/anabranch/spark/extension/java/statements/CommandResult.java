package anabranch;

import org.apache.spark.sql.RowFactory;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Results of commands. */
public final class CommandResult {
  private CommandResult() {}

  /** One row of long numbers, from a text with commas between them: Py4J would pass small ones as ints. */
  public static Seq numbers(String text) {
    String[] parts = text.split(",");
    Object[] values = new Object[parts.length];
    for (int i = 0; i < parts.length; i++) values[i] = Long.valueOf(parts[i]);
    return (Seq) Nil$.MODULE$.$colon$colon(RowFactory.create(values));
  }
}
