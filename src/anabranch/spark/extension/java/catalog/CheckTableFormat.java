package anabranch;

import delta.DeltaCatalog;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.DropTablePreEvent;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogEvent;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogEventListener;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogWithListener;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.CreateTable;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;

/**
 * Statements and writes in another format where a table of ours is, most often because a write names no format. Those that Spark
 * refuses get an error that says what to do; Python warns of those that Spark accepts.
 */
public final class CheckTableFormat implements ExternalCatalogEventListener {
  private static final int FOLDERS_UP_MAX = 8;
  private final ExternalCatalogWithListener catalog;

  private CheckTableFormat(ExternalCatalogWithListener catalog) {
    this.catalog = catalog;
  }

  /** Refuses, by an error of Python's, a plan that creates a table of another format where one of ours is. */
  static void check(Object session, LogicalPlan plan) {
    if (plan instanceof CreateTable) checkSave(session, (CreateTable) plan);
    if (plan instanceof V2CreateTablePlan) checkDefinition(session, plan);
  }

  /** Checks `saveAsTable`, for which Spark's error says only that the formats differ. In mode overwrite Spark has already dropped the table. */
  private static void checkSave(Object session, CreateTable plan) {
    if (plan.query().isEmpty() || plan.tableDesc().provider().isEmpty()) return;
    TableIdentifier name = plan.tableDesc().identifier();
    String database = name.database().isDefined() ? (String) name.database().get() : "";
    String format = (String) plan.tableDesc().provider().get();
    if (format.equalsIgnoreCase("delta")) return;
    boolean isPath = DeltaCatalog.isPath(database, name.table());
    if (isPath || plan.mode() == SaveMode.Append && isOurs(session, name)) refuse(session, "saveAsTable", database, name.table(), format);
  }

  /** Checks CREATE at a path, and REPLACE: Spark replaces a table of the session's catalog only by one of its newer interface. */
  private static void checkDefinition(Object session, LogicalPlan plan) {
    Object named = TableChanges.optionalValue(plan, "name");
    if (!(named instanceof ResolvedIdentifier) || !(((ResolvedIdentifier) named).catalog() instanceof DeltaCatalog)) return;
    DeltaCatalog catalog = (DeltaCatalog) ((ResolvedIdentifier) named).catalog();
    // A catalog of folders has errors of its own.
    if (!catalog.name().equals("spark_catalog")) return;
    scala.Option specProvider = (scala.Option) TableChanges.optionalValue(TableChanges.optionalValue(plan, "tableSpec"), "provider");
    String provider = specProvider.isDefined() ? (String) specProvider.get() : null;
    Identifier ident = ((ResolvedIdentifier) named).identifier();
    if (catalog.isDelta(provider) || ident.namespace().length != 1) return;
    String format = provider == null ? org.apache.spark.sql.internal.SQLConf.get().defaultDataSourceName() : provider;
    boolean replaces = plan.nodeName().startsWith("Replace");
    if (DeltaCatalog.isPath(ident.namespace()[0], ident.name()) || replaces && catalog.isOurs(ident))
      refuse(session, replaces ? "REPLACE TABLE" : "CREATE TABLE", ident.namespace()[0], ident.name(), format);
  }

  private static void refuse(Object session, String how, String database, String name, String format) {
    PythonCallbacks.refuseOtherFormat(session, how, database, name, format);
  }

  private static boolean isOurs(Object session, TableIdentifier name) {
    SessionCatalog catalog = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().catalog();
    try {
      return catalog.tableExists(name) && isOurs(catalog.getTableMetadata(name));
    } catch (NoSuchNamespaceException gone) {
      return false;
    } catch (NoSuchTableException gone) {
      return false;
    }
  }

  private static boolean isOurs(CatalogTable entry) {
    return entry.provider().isDefined() && "delta".equalsIgnoreCase((String) entry.provider().get());
  }

  /** Makes Python warn if files are written into the folder of a table, or of one of its partitions. */
  static void checkFolder(Object session, InsertIntoHadoopFsRelationCommand write) {
    // If the table is about to be dropped, the listener warns.
    if (write.mode() == SaveMode.Overwrite && StagedSparkTable.isSaveAsTable()) return;
    try {
      Path folder = write.outputPath();
      FileSystem files = folder.getFileSystem(((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf());
      for (int i = 0; i < FOLDERS_UP_MAX; i++) {
        if (files.exists(new Path(folder, "_delta_log"))) {
          boolean deletes = i == 0 && write.mode() == SaveMode.Overwrite && write.staticPartitions().isEmpty();
          PythonCallbacks.warnOfOtherFiles(folder.toString(), write.fileFormat().toString(), deletes);
          return;
        }
        if (folder.getParent() == null || folder.getName().indexOf('=') < 0) return;
        folder = folder.getParent();
      }
    } catch (java.io.IOException failure) {
      // The write itself will fail, too.
    }
  }

  /** Starts watching for tables that `saveAsTable` drops before it creates one of another format: that is in no plan. */
  static void watch(org.apache.spark.sql.classic.SparkSession session) {
    unwatch(session);
    ExternalCatalogWithListener catalog = session.sharedState().externalCatalog();
    catalog.addListener(new CheckTableFormat(catalog));
  }

  static void unwatch(org.apache.spark.sql.classic.SparkSession session) {
    ExternalCatalogWithListener catalog = session.sharedState().externalCatalog();
    Object[] listeners = catalog.listeners().toArray();
    for (int i = 0; i < listeners.length; i++) if (listeners[i] instanceof CheckTableFormat) catalog.removeListener(listeners[i]);
  }

  public void onEvent(ExternalCatalogEvent event) {
    if (!(event instanceof DropTablePreEvent) || !PythonEndpoint.isOpen() || !StagedSparkTable.isSaveAsTable()) return;
    DropTablePreEvent drop = (DropTablePreEvent) event;
    if (!catalog.tableExists(drop.database(), drop.name())) return;
    if (!isOurs(catalog.getTable(drop.database(), drop.name()))) return;
    PythonCallbacks.warnOfOtherFormat(org.apache.spark.sql.classic.SparkSession.active(), drop.database(), drop.name());
  }
}
