package io.delta.tables;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;

/**
 * A class with delta-spark's name, for programs that call it through Py4J: `spark._jvm.io.delta.tables.DeltaTable`. It has methods
 * that read; those that change a table are in Python's `DeltaTable`, and in SQL.
 */
public class DeltaTable {
  private final SparkSession session;
  /** The name as SQL text. */
  private final String name;

  private DeltaTable(SparkSession session, String name) {
    this.session = session;
    this.name = name;
    // Throws an error if there is no Delta table.
    history(1);
  }

  public static DeltaTable forPath(String path) {
    return forPath(active(), path);
  }

  public static DeltaTable forPath(SparkSession session, String path) {
    return new DeltaTable(session, "delta." + quoted(qualified(session, path)));
  }

  /** The name of a table, or delta.`path`. */
  public static DeltaTable forName(String name) throws ParseException {
    return forName(active(), name);
  }

  public static DeltaTable forName(SparkSession session, String name) throws ParseException {
    scala.collection.immutable.Seq parts = classic(session).sessionState().sqlParser().parseMultipartIdentifier(name);
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < parts.size(); i++) text.append(i == 0 ? "" : ".").append(quoted((String) parts.apply(i)));
    return new DeltaTable(session, text.toString());
  }

  /** Whether a Delta table is in that folder. */
  public static boolean isDeltaTable(String path) {
    return isDeltaTable(active(), path);
  }

  public static boolean isDeltaTable(SparkSession session, String path) {
    return anabranch.PythonCallbacks.tableByPath(session, qualified(session, path), null, null) != null;
  }

  public Dataset history() {
    return sql("DESCRIBE HISTORY " + name);
  }

  public Dataset history(int limit) {
    return sql("DESCRIBE HISTORY " + name + " LIMIT " + limit);
  }

  public Dataset detail() {
    return sql("DESCRIBE DETAIL " + name);
  }

  public Dataset toDF() {
    return sql("SELECT * FROM " + name);
  }

  private Dataset sql(String text) {
    if (!anabranch.PythonEndpoint.isOpen()) throw delta.DeltaError.disabled();
    return session.sql(text);
  }

  private static SparkSession active() {
    return org.apache.spark.sql.classic.SparkSession.active();
  }

  private static org.apache.spark.sql.classic.SparkSession classic(SparkSession session) {
    return (org.apache.spark.sql.classic.SparkSession) session;
  }

  /** The absolute path with its scheme: SQL has no relative paths. */
  private static String qualified(SparkSession session, String path) {
    try {
      Path plain = new Path(path);
      return plain.getFileSystem(classic(session).sessionState().newHadoopConf()).makeQualified(plain).toString();
    } catch (java.io.IOException failure) {
      throw new java.io.UncheckedIOException(failure);
    }
  }

  private static String quoted(String part) {
    return "`" + part.replace("`", "``") + "`";
  }
}
