package delta;

import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;

/** DESCRIBE asks each table for a scan, to learn whether it tells figures of its rows. Rows are never read by it: `Resolve` sees to that. */
public final class NoScan implements ScanBuilder, Scan {
  private final StructType schema;

  public NoScan(StructType schema) {
    this.schema = schema;
  }

  public Scan build() {
    return this;
  }

  /** Reads never get here: `Resolve` puts Spark's own leaf in their place, in sessions that are enabled. */
  public Batch toBatch() {
    throw DeltaError.disabled();
  }

  public StructType readSchema() {
    return schema;
  }
}
