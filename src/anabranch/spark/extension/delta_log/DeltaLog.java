package org.apache.spark.sql.delta;

/** Under delta-spark's name, for programs that reach it through Py4J: `spark._jvm.org.apache.spark.sql.delta.DeltaLog`. */
public final class DeltaLog {
  private DeltaLog() {}

  /** Nothing is to be cleared: each look at a table lists its log, and a folder that was made anew is a new table. */
  public static void clearCache() {}
}
