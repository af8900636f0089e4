package anabranch;

import delta.DeltaCatalog;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.streaming.OutputMode;

/** A table into which a stream writes; each batch is one commit. */
public class DeltaSink implements Sink {
  private static final ThreadLocal NAMED = new ThreadLocal();

  private final String path;
  private final String options;
  private final String partitions;
  private final String mode;
  /** The entry in the session's catalog, or null for a table by path. */
  private final CatalogTable catalogTable;

  /** Checks the options now, before the query starts. */
  public DeltaSink(Object session, scala.collection.immutable.Map parameters, scala.collection.immutable.Seq partitions, OutputMode mode) {
    this.path = path(parameters);
    this.options = options(parameters);
    this.partitions = partitions.mkString("\0");
    this.mode = mode.toString();
    this.catalogTable = ofCatalog(taken(path));
    PythonCallbacks.openSink(session, this.options, this.partitions, this.mode, catalogTable);
  }

  /** Remembers the table of a stream by name. Spark opens it as a stream by path, on the same thread. */
  public static void name(CatalogTable table) {
    NAMED.set(table);
  }

  public static String path(scala.collection.immutable.Map parameters) {
    return parameters.contains("path") ? (String) parameters.apply("path") : "";
  }

  /** The options as the user wrote them: keys and values, each with NUL at its end. */
  public static String options(scala.collection.immutable.Map parameters) {
    Object options = parameters instanceof CaseInsensitiveMap ? ((CaseInsensitiveMap) parameters).originalMap() : parameters;
    return joined(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) options));
  }

  /** The entry of the last stream by name on this thread, if its table is in that folder. */
  public static CatalogTable taken(String path) {
    CatalogTable named = (CatalogTable) NAMED.get();
    NAMED.remove();
    return named != null && new org.apache.hadoop.fs.Path(named.location()).toString().equals(path) ? named : null;
  }

  /** Refuses a name without an entry in a catalog: after each batch Spark refreshes the table by its name. */
  private static CatalogTable ofCatalog(CatalogTable named) {
    if (named == null) return null;
    TableIdentifier name = named.identifier();
    boolean isPath = DeltaCatalog.isPath((String) name.database().get(), name.table());
    if (isPath) PythonCallbacks.refuseSinkByName(name.table());
    return named;
  }

  private static String joined(Map entries) {
    StringBuilder text = new StringBuilder();
    for (Iterator iterator = entries.entrySet().iterator(); iterator.hasNext();) {
      Map.Entry entry = (Map.Entry) iterator.next();
      text.append(entry.getKey()).append('\0').append(entry.getValue()).append('\0');
    }
    return text.toString();
  }

  /** Passes the rows as Spark's own sinks read them: the query's plan, with its state, runs once. */
  public void addBatch(long id, org.apache.spark.sql.Dataset rows) {
    org.apache.spark.sql.classic.Dataset batch = (org.apache.spark.sql.classic.Dataset) rows;
    QueryExecution execution = batch.queryExecution();
    Object plain = batch.sparkSession().internalCreateDataFrame(execution.toRdd(), batch.schema(), false);
    PythonCallbacks.addBatch(
        batch.sparkSession(), options, partitions, mode, catalogTable, id, plain, execution.optimizedPlan());
  }

  public String toString() {
    return "delta[" + path + "]";
  }
}
