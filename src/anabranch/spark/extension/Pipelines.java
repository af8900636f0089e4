package delta;

import org.apache.spark.sql.connector.catalog.Table;

/** Declarative pipelines of Spark. */
public final class Pipelines {
  private static final String CLASSES = "org.apache.spark.sql.pipelines.";

  private Pipelines() {}

  /** The table for the caller of the catalog's `loadTable`. AutoCDC requires that its target declares row-level operations. */
  static Table loaded(Table table, Class caller) {
    return table instanceof DeltaTable && caller.getName().startsWith(CLASSES) ? new RowLevelTable((DeltaTable) table) : table;
  }
}
