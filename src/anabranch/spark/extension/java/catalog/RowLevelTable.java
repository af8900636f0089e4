package anabranch;

import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;

/**
 * A table that declares row-level operations, for declarative pipelines, which look at the declaration only. No plan has this class:
 * Spark's analyzer would align the assignments of UPDATE and MERGE with such a table, and rewrite these statements and DELETE, which
 * are commands of ours (ResolveDeltaTables).
 */
public final class RowLevelTable extends DeltaTable implements SupportsRowLevelOperations {
  RowLevelTable(DeltaTable table) {
    super(table, table.clusteringColumns, table.options);
  }

  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    throw new UnsupportedOperationException("Spark does not plan row-level operations of " + name());
  }
}
