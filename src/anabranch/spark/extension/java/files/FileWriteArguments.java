package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** The parts of a Spark write job, each made by one call from Python. */
public final class FileWriteArguments {
  private FileWriteArguments() {}

  /** A session like this one with other settings: alternating keys and values, separated by NUL. */
  public static org.apache.spark.sql.classic.SparkSession session(
      org.apache.spark.sql.classic.SparkSession session, String settings) {
    org.apache.spark.sql.classic.SparkSession copy = session.cloneSession();
    String[] parts = settings.split("\0", -1);
    for (int i = 0; i + 1 < parts.length; i += 2) copy.conf().set(parts[i], parts[i + 1]);
    return copy;
  }

  /**
   * The first columns of a plan with the names, types and ids of the files. Values are not computed again.
   *
   * @param retyped `1` for each column that takes the type of its field, `0` for the others
   */
  public static Seq columns(Seq output, StructType stored, String retyped) {
    List columns = new ArrayList();
    for (int i = 0; i < stored.length(); i++) {
      StructField field = stored.apply(i);
      Attribute column = ((Attribute) output.apply(i)).withName(field.name()).withNullability(true);
      if (retyped.charAt(i) == '1') column = column.withDataType(field.dataType());
      columns.add(column.withMetadata(field.metadata()));
    }
    return seq(columns);
  }

  /** The columns at these indexes, which are separated by spaces. */
  public static Seq chosen(Seq columns, String indexes) {
    List chosen = new ArrayList();
    String[] parts = indexes.trim().split(" ");
    for (int i = 0; i < parts.length; i++) if (!parts[i].isEmpty()) chosen.add(columns.apply(Integer.parseInt(parts[i])));
    return seq(chosen);
  }

  /** The columns from `start` on, with these names, which are separated by NUL. */
  public static Seq named(Seq columns, int start, String names) {
    List named = new ArrayList();
    String[] parts = names.split("\0", -1);
    for (int i = 0; i < parts.length; i++)
      named.add(((Attribute) columns.apply(start + i)).withName(parts[i]).withNullability(true));
    return seq(named);
  }

  /** The columns of both lists without duplicates: those that are only in the second are last. */
  public static Seq eachOnce(Seq columns, Seq others) {
    List distinct = new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(columns));
    for (int i = 0; i < others.size(); i++) {
      boolean isInFirst = false;
      for (int k = 0; k < columns.size(); k++)
        isInFirst = isInFirst || ((Attribute) columns.apply(k)).exprId().id() == ((Attribute) others.apply(i)).exprId().id();
      if (!isInFirst) distinct.add(others.apply(i));
    }
    return seq(distinct);
  }

  static Seq seq(List items) {
    return scala.jdk.javaapi.CollectionConverters.asScala(items).toList();
  }
}
