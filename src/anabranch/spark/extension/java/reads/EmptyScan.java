package anabranch;

import delta.DeltaError;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;

/** A scan without rows. DESCRIBE makes one of each table, to see whether it reports statistics; `ResolveDeltaTables` replaces all reads. */
public final class EmptyScan implements ScanBuilder, Scan {
  private final StructType schema;

  public EmptyScan(StructType schema) {
    this.schema = schema;
  }

  public Scan build() {
    return this;
  }

  /** Never called in enabled sessions, where `ResolveDeltaTables` replaces the table by Spark's own leaf. */
  public Batch toBatch() {
    throw DeltaError.disabled();
  }

  public StructType readSchema() {
    return schema;
  }
}
