package anabranch;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.InsertableRelation;

/** The write that Spark's planner needs for a table. `ResolveDeltaTables` turns writes into commands first, except one within another command, as in CREATE FLOW. */
public class DeltaWrite implements WriteBuilder, SupportsOverwrite, SupportsDynamicOverwrite, V1Write, InsertableRelation {
  private final DeltaTable table;
  private final LogicalWriteInfo info;

  public DeltaWrite(DeltaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  public boolean canOverwrite(Filter[] filters) {
    return true;
  }

  public WriteBuilder overwrite(Filter[] filters) {
    return this;
  }

  public WriteBuilder truncate() {
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    return this;
  }

  public Write build() {
    return this;
  }

  public InsertableRelation toInsertableRelation() {
    return this;
  }

  public void insert(org.apache.spark.sql.Dataset rows, boolean overwrite) {
    throw new UnsupportedOperationException("A write of " + table.name + " within another command is not supported: " + info.queryId());
  }
}
