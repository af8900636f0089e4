package org.apache.spark.sql.delta;

/** A class with delta-spark's name, for programs that call it through Py4J: `spark._jvm.org.apache.spark.sql.delta.DeltaLog`. */
public final class DeltaLog {
  private DeltaLog() {}

  /** Does nothing: each use of a table lists its log, and a folder that was made again is a new table. */
  public static void clearCache() {}
}
