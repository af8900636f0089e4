package anabranch;

import delta.DeltaCatalog;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** A new table of another format in a catalog that stages tables: it exists at once, and is dropped if its rows cannot be written. */
public final class StagedSparkTable implements StagedTable, SupportsWrite {
  private static final String UNLESS_THERE = "anabranch.unlessThere";
  private final TableCatalog catalog;
  private final Identifier ident;
  private final Table table;

  public StagedSparkTable(TableCatalog catalog, Identifier ident, Table table) {
    this.catalog = catalog;
    this.ident = ident;
    this.table = table;
  }

  /** Whether `df.write.saveAsTable` is on the stack, which replaces a table. From Spark 4.1 on options of the rows say so, too. */
  public static boolean isSaveAsTable() {
    StackTraceElement[] calls = Thread.currentThread().getStackTrace();
    for (int i = 0; i < calls.length; i++) {
      if (calls[i].getClassName().equals("org.apache.spark.sql.classic.DataFrameWriter")) return true;
    }
    return false;
  }

  /**
   * Adds an option to the rows of `CREATE TABLE IF NOT EXISTS ... AS`: a table that another writer creates in the meantime stays as it
   * is. Spark checks for the table before the statement, and does not pass IF NOT EXISTS to the catalog.
   */
  public static LogicalPlan unlessThere(CreateTableAsSelect plan) {
    if (!plan.ignoreIfExists() || plan.writeOptions().contains(UNLESS_THERE) || !(plan.name() instanceof ResolvedIdentifier)) return plan;
    Object catalog = ((ResolvedIdentifier) plan.name()).catalog();
    if (!(catalog instanceof DeltaCatalog)) return plan;
    scala.Option provider = plan.tableSpec().provider();
    if (!((DeltaCatalog) catalog).isDelta(provider.isDefined() ? (String) provider.get() : null)) return plan;
    scala.collection.immutable.Map options = (scala.collection.immutable.Map) plan.writeOptions().updated(UNLESS_THERE, "true");
    return plan.copy(plan.name(), plan.partitioning(), plan.query(), plan.tableSpec(), options, true, plan.isAnalyzed());
  }

  public String name() {
    return table.name();
  }

  public StructType schema() {
    return table.schema();
  }

  public Transform[] partitioning() {
    return table.partitioning();
  }

  public Map properties() {
    return new HashMap(table.properties());
  }

  public Set capabilities() {
    return table.capabilities();
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) table).newWriteBuilder(info);
  }

  public void commitStagedChanges() {}

  public void abortStagedChanges() {
    catalog.dropTable(ident);
  }

  /** Spark 4.2 and later call this in a way that does not find default methods of interfaces. */
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }
}
