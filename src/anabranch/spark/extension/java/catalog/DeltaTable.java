package anabranch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback;
import org.apache.spark.sql.connector.expressions.ClusterByTransform;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table for Spark's analyzer, with its columns at the time when it was looked up. The version to read is chosen when a query
 * runs (ChooseVersions), unless the user named one. A rule (ResolveDeltaTables) replaces reads and writes of it.
 */
public class DeltaTable implements TruncatableTable, SupportsRead, SupportsWrite, StagedTable, V2TableWithV1Fallback {
  public final String name;
  public final String path;
  public final StructType schema;
  /** The schema as JSON. */
  public final String schemaJson;
  public final String[] partitionColumns;
  /** Clustering columns: names in backticks where SQL needs them, fields of structs after dots. */
  public final String[] clusteringColumns;
  public final Map properties;
  /** The version that the user named, or null for the newest when a query runs. */
  public final Long version;
  /** The version that was looked up, whose columns these are; null for a table that has none yet. */
  public final Long resolvedVersion;
  /** The number of the execution in whose analysis it was looked up, as ChooseVersions has it. */
  final Long execution;
  /** Options of a reader that decide which rows it gets: settings of the file system, bounds of a change feed, … */
  public final Map options;
  /** The entry in the session's catalog, or null for a table by path. */
  public final Object catalogTable;
  /** The schema that a reader declared, or that of a writer's rows, as JSON; null without one. */
  public volatile String declared;
  /** While a table accepts any schema, Spark leaves the columns of INSERT and MERGE to us. */
  public volatile boolean takesAnySchema = true;

  /**
   * @param schema as JSON
   * @param partitionColumns separated by NUL, which is in no name, as are clustering columns, and keys and values of the maps
   * @param version an Integer, a Long or null, as is `resolvedVersion`
   */
  public DeltaTable(String name, String path, String schema, String partitionColumns, String clusteringColumns, String properties,
      Object version, Object resolvedVersion, String options, Object catalogTable) {
    this.name = name;
    this.path = path;
    this.schema = (StructType) DataType.fromJson(schema);
    this.schemaJson = schema;
    this.partitionColumns = parts(partitionColumns);
    this.clusteringColumns = parts(clusteringColumns);
    this.properties = map(properties);
    this.version = number(version);
    this.resolvedVersion = number(resolvedVersion);
    this.execution = ChooseVersions.numberOfExecution();
    this.options = map(options);
    this.catalogTable = catalogTable;
  }

  DeltaTable(DeltaTable table, String[] clusteringColumns, Map options) {
    this.name = table.name;
    this.path = table.path;
    this.schema = table.schema;
    this.schemaJson = table.schemaJson;
    this.partitionColumns = table.partitionColumns;
    this.clusteringColumns = clusteringColumns;
    this.properties = table.properties;
    this.version = table.version;
    this.resolvedVersion = table.resolvedVersion;
    this.execution = table.execution;
    this.options = options;
    this.catalogTable = table.catalogTable;
  }

  /** The table as if it had no clustering columns. */
  DeltaTable unclustered() {
    return new DeltaTable(this, new String[0], options);
  }

  /** The table with the rows that the transaction of that key sees. */
  DeltaTable inTransaction(String key) {
    Map all = new HashMap(options);
    all.put(Transactions.OPTION, key);
    return new DeltaTable(this, clusteringColumns, all);
  }

  private static Long number(Object number) {
    return number == null ? null : Long.valueOf(((Number) number).longValue());
  }

  private static String[] parts(String text) {
    return text.isEmpty() ? new String[0] : text.split("\0", -1);
  }

  private static Map map(String text) {
    Map map = new HashMap();
    String[] parts = parts(text);
    for (int i = 0; i + 1 < parts.length; i += 2) map.put(parts[i], parts[i + 1]);
    return map;
  }

  public String name() {
    return name;
  }

  /** The schema with the declared types, such as CHAR and VARCHAR, as Spark expects from a catalog. */
  public StructType schema() {
    return CharVarcharUtils.getRawSchema(schema);
  }

  public Object catalogTable() {
    return catalogTable;
  }

  /** The catalog entry, from which `toTable` and `readStream.table` take format and location. For a path one is made. */
  public CatalogTable v1Table() {
    CatalogTable entry = (CatalogTable) catalogTable;
    if (entry == null) entry = PythonCallbacks.entryOfPath(org.apache.spark.sql.classic.SparkSession.active(), this);
    DeltaSink.name(entry);
    return entry;
  }

  /** Whether it shows the newest version of a whole table. Of others `check_whole_table` in Python says what they are. */
  public boolean isWhole() {
    return version == null && !isChanges() && !options.containsKey("anabranch.partition");
  }

  /** Whether its rows are changes of a table. */
  public boolean isChanges() {
    return options.containsKey("anabranch.changes");
  }

  /** Whether rows have ids, see "Row Tracking" of the protocol. */
  public boolean tracksRows() {
    return "true".equalsIgnoreCase((String) properties.get("delta.enableRowTracking"));
  }

  /** The columns that are in data files. */
  public StructType dataSchema() {
    List fields = new ArrayList();
    StructField[] all = schema.fields();
    for (int i = 0; i < all.length; i++) if (!isPartition(all[i].name())) fields.add(all[i]);
    return new StructType((StructField[]) fields.toArray(new StructField[0]));
  }

  public StructType partitionSchema() {
    StructField[] fields = new StructField[partitionColumns.length];
    for (int i = 0; i < fields.length; i++) fields[i] = schema.apply(partitionColumns[i]);
    return new StructType(fields);
  }

  private boolean isPartition(String column) {
    for (int i = 0; i < partitionColumns.length; i++) if (partitionColumns[i].equals(column)) return true;
    return false;
  }

  /** Partition columns, or clustering: an append by `saveAsTable` compares them with those of its writer. */
  public Transform[] partitioning() {
    if (clusteringColumns.length > 0) return new Transform[] {clustering()};
    Transform[] transforms = new Transform[partitionColumns.length];
    for (int i = 0; i < transforms.length; i++) transforms[i] = Expressions.identity(quoted(partitionColumns[i]));
    return transforms;
  }

  private Transform clustering() {
    List columns = new ArrayList();
    for (int i = 0; i < clusteringColumns.length; i++) columns.add(Expressions.column(clusteringColumns[i]));
    return new ClusterByTransform(scala.jdk.javaapi.CollectionConverters.asScala(columns).toSeq());
  }

  private static String quoted(String name) {
    return "`" + name.replace("`", "``") + "`";
  }

  public Map properties() {
    return properties;
  }

  public Set capabilities() {
    HashSet all = new HashSet();
    all.add(TableCapability.BATCH_READ);
    all.add(TableCapability.V1_BATCH_WRITE);
    all.add(TableCapability.TRUNCATE);
    all.add(TableCapability.OVERWRITE_BY_FILTER);
    all.add(TableCapability.OVERWRITE_DYNAMIC);
    if (takesAnySchema) all.add(TableCapability.ACCEPT_ANY_SCHEMA);
    return all;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new EmptyScan(schema);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new DeltaWrite(this, info);
  }

  public boolean truncateTable() {
    if (Pipelines.refreshes(this)) return true;
    PythonCallbacks.truncateTable(org.apache.spark.sql.classic.SparkSession.active(), this);
    return true;
  }

  /** Two interfaces have a default method of this name, so Java needs one here. */
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  public void commitStagedChanges() {
    PythonCallbacks.commitStagedTable(org.apache.spark.sql.classic.SparkSession.active(), (String) options.get("anabranch.staged"));
  }

  public void abortStagedChanges() {
    PythonCallbacks.abortStagedTable((String) options.get("anabranch.staged"));
  }

  /** Equal tables have the same rows. */
  public boolean equals(Object other) {
    if (!(other instanceof DeltaTable)) return false;
    DeltaTable table = (DeltaTable) other;
    return path.equals(table.path) && schema.equals(table.schema) && options.equals(table.options)
        && (version == null ? table.version == null : version.equals(table.version));
  }

  public int hashCode() {
    return path.hashCode();
  }
}
