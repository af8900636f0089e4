package delta;

import anabranch.DeltaSink;
import anabranch.DeltaStream;
import anabranch.DeltaTable;
import anabranch.PythonCallbacks;
import java.util.Map;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The data source `delta`, which Spark finds by this class's name, for batches and streams, from Python and from the JVM. */
public class DefaultSource implements TableProvider, SAVES_AS_TABLE, CreatableRelationProvider, StreamSourceProvider, StreamSinkProvider,
    DataSourceRegister {
  /** The table of the last `inferSchema`: Spark passes its schema to `getTable`. */
  private DeltaTable resolvedTable;
  /** Whether `save` is the caller: it has the schema, and will pass the rows. */
  private boolean isWritten;

  public String shortName() {
    return "delta";
  }

  /** Python checks which types a table can have. */
  public boolean supportsDataType(DataType type) {
    return true;
  }

  /**
   * A reader may pass a schema. A writer may not: it would pass `partitionBy` and `clusterBy`, too, parsed as SQL, but `save` takes
   * plain names, as in delta-spark.
   */
  public boolean supportsExternalMetadata() {
    String caller = Thread.currentThread().getStackTrace()[2].getClassName();
    isWritten = caller.equals("org.apache.spark.sql.classic.DataFrameWriter");
    return !isWritten;
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    resolvedTable = table(options, isWritten ? new StructType() : null);
    return resolvedTable.schema;
  }

  public Table getTable(StructType schema, Transform[] partitions, Map properties) {
    if (resolvedTable != null && resolvedTable.schema == schema) return resolvedTable;
    return table(new CaseInsensitiveStringMap(properties), schema);
  }

  /** The table of the options. With a schema the caller may be about to create it, so it need not exist. */
  private static DeltaTable table(CaseInsensitiveStringMap options, StructType schema) {
    Object session = org.apache.spark.sql.classic.SparkSession.active();
    DeltaTable table = PythonCallbacks.tableByOptions(session, options.asCaseSensitiveMap(), schema);
    if (table == null) return new DeltaTable("delta", "", schema.json(), "", "", "", null, null, "", null);
    if (schema != null) table.declared = schema.json();
    return table;
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map parameters, org.apache.spark.sql.Dataset rows) {
    Map options = scala.jdk.javaapi.CollectionConverters.asJava(parameters);
    PythonCallbacks.save(context.sparkSession(), mode.toString(), options, rows);
    return new Saved(context);
  }

  /** The columns of a stream. For a table by name the schema comes from the catalog, not from the user. */
  public scala.Tuple2 sourceSchema(SQLContext context, scala.Option schema, String name, scala.collection.immutable.Map parameters) {
    boolean isNamed = DeltaSink.taken(DeltaSink.path(parameters)) != null;
    String declared = isNamed || schema.isEmpty() || ((StructType) schema.get()).isEmpty() ? null : ((StructType) schema.get()).json();
    String columns = PythonCallbacks.streamColumns(context.sparkSession(), DeltaSink.options(parameters), declared);
    return new scala.Tuple2(shortName(), DataType.fromJson(columns));
  }

  public Source createSource(
      SQLContext context, String checkpoint, scala.Option schema, String name, scala.collection.immutable.Map parameters) {
    String opened = PythonCallbacks.openStream(context.sparkSession(), DeltaSink.options(parameters), checkpoint);
    return new DeltaStream(context.sparkSession(), opened);
  }

  public Sink createSink(SQLContext context, scala.collection.immutable.Map parameters, scala.collection.immutable.Seq partitions, OutputMode mode) {
    return new DeltaSink(context.sparkSession(), parameters, partitions, mode);
  }

  /** The relation that Spark needs after a save. */
  private static final class Saved extends BaseRelation {
    private final SQLContext context;

    Saved(SQLContext context) {
      this.context = context;
    }

    public SQLContext sqlContext() {
      return context;
    }

    public StructType schema() {
      return new StructType();
    }
  }
}
