package anabranch;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.connector.catalog.Table;

/**
 * Declarative pipelines of Spark. They refresh a materialized view by TRUNCATE TABLE and, later, an append, between which its readers
 * would see no rows. Here the append replaces the rows, and TRUNCATE TABLE does nothing.
 */
public final class Pipelines {
  private static final String CLASSES = "org.apache.spark.sql.pipelines.";
  private static final String RETRIES_SETTING = "spark.anabranch.conflictRetries";
  private static final String RETRIES = "20";
  private static final String SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$";
  /** The paths of tables that were not truncated. They stay in it: a flow that failed in its write writes again. */
  private static final Set REFRESHED = Collections.synchronizedSet(new HashSet());

  private Pipelines() {}

  /** The table for the caller of the catalog's `loadTable`. AutoCDC requires that its target declares row-level operations. */
  public static Table loaded(Table table, Class caller) {
    return table instanceof DeltaTable && caller.getName().startsWith(CLASSES) ? new RowLevelTable((DeltaTable) table) : table;
  }

  /** Whether a pipeline truncates a materialized view, whose next write will replace the rows. */
  static boolean refreshes(DeltaTable table) {
    if (!isCalling()) return false;
    boolean refreshes = table.catalogTable != null && isMaterializedView(((CatalogTable) table.catalogTable).identifier());
    if (refreshes) REFRESHED.add(table.path);
    else REFRESHED.remove(table.path);
    return refreshes;
  }

  /** The write, which replaces the rows of a materialized view that was not truncated. */
  static LogicalPlan refreshing(LogicalPlan write) {
    if (!(write instanceof AppendData)) return write;
    V2WriteCommand append = (V2WriteCommand) write;
    if (!REFRESHED.contains(DeltaRelations.tableOf(append.table()).path) || !isCalling()) return write;
    String how = append.isByName() ? "byName" : "byPosition";
    Object options = ((AppendData) write).writeOptions();
    return ResolveInserts.Replacing.made(how, new Object[] {append.table(), append.query(), Literal$.MODULE$.apply(Boolean.TRUE), options});
  }

  /**
   * The statement. The MERGE by which a pipeline applies changes runs again after a conflict, unless the user says how often statements
   * may: it compares sequence numbers, and Spark would run the whole batch again.
   */
  static LogicalPlan repeated(Object session, LogicalPlan statement) {
    boolean isSet = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf().contains(RETRIES_SETTING);
    if (!isSet && statement instanceof MergeIntoTable && isCalling()) statement.setTagValue(RowChangeStatements.RETRIES, RETRIES);
    return statement;
  }

  private static boolean isCalling() {
    StackTraceElement[] calls = Thread.currentThread().getStackTrace();
    for (int i = 0; i < calls.length; i++) if (calls[i].getClassName().startsWith(CLASSES)) return true;
    return false;
  }

  /**
   * Whether pipelines define a table of that name, all of them as a materialized view. A streaming table must be truncated at once:
   * its stream begins again, and appends in batches.
   */
  private static boolean isMaterializedView(TableIdentifier name) {
    boolean isDefined = false;
    try {
      Object service = Class.forName(SERVICE, true, Thread.currentThread().getContextClassLoader()).getField("MODULE$").get(null);
      Object manager = TableChanges.optionalValue(service, "sessionManager");
      Field sessions = manager.getClass().getDeclaredField("sessionStore");
      sessions.setAccessible(true);
      for (Iterator open = ((Map) sessions.get(manager)).values().iterator(); open.hasNext();) {
        Object registry = TableChanges.optionalValue(open.next(), "dataflowGraphRegistry");
        for (Iterator graphs = all(TableChanges.optionalValue(registry, "getAllDataflowGraphs")); graphs.hasNext();) {
          for (Iterator tables = all(TableChanges.optionalValue(graphs.next(), "tables")); tables.hasNext();) {
            Object table = tables.next();
            TableIdentifier defined = (TableIdentifier) TableChanges.optionalValue(table, "identifier");
            if (!defined.table().equalsIgnoreCase(name.table()) || !defined.database().equals(name.database())) continue;
            if (!Boolean.FALSE.equals(TableChanges.optionalValue(table, "isStreamingTable"))) return false;
            isDefined = true;
          }
        }
      }
      return isDefined;
    } catch (ReflectiveOperationException absent) {
      return false;
    }
  }

  private static Iterator all(Object collection) {
    return scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Iterable) collection).iterator();
  }
}
