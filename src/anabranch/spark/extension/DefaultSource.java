package delta;

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

/** `format("delta")`, found by its name, for batches and streams, from Python and from the JVM. */
public class DefaultSource implements TableProvider, SAVES_AS_TABLE, CreatableRelationProvider, StreamSourceProvider, StreamSinkProvider,
    DataSourceRegister {
  /** What was found when Spark asked for the columns; with them, it asks for the table. */
  private DeltaTable found;
  /** Whether `save` asks, which knows the schema, and is about to hand over the rows. */
  private boolean isWritten;

  public String shortName() {
    return "delta";
  }

  /** Python tells which types a table cannot have. */
  public boolean supportsDataType(DataType type) {
    return true;
  }

  /**
   * A reader may bring a schema. To a writer it is denied: it would bring `partitionBy` and `clusterBy`, too, and read them
   * as SQL first, where `save` takes plain names, as in delta-spark.
   */
  public boolean supportsExternalMetadata() {
    String caller = Thread.currentThread().getStackTrace()[2].getClassName();
    isWritten = caller.equals("org.apache.spark.sql.classic.DataFrameWriter");
    return !isWritten;
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    found = table(options, isWritten ? new StructType() : null);
    return found.schema;
  }

  public Table getTable(StructType schema, Transform[] partitions, Map properties) {
    if (found != null && found.schema == schema) return found;
    return table(new CaseInsensitiveStringMap(properties), schema);
  }

  /** Whoever brings a schema may be about to create the table: then there need be none yet. */
  private static DeltaTable table(CaseInsensitiveStringMap options, StructType given) {
    Object session = org.apache.spark.sql.classic.SparkSession.active();
    DeltaTable table = (DeltaTable) Python.ask("table of options", new Object[] {session, options.asCaseSensitiveMap(), given});
    if (table == null) return new DeltaTable("delta", "", given.json(), "", "", "", null, "", null);
    if (given != null) table.declared = given.json();
    return table;
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map parameters, org.apache.spark.sql.Dataset rows) {
    Map options = scala.jdk.javaapi.CollectionConverters.asJava(parameters);
    Python.ask("save", new Object[] {context.sparkSession(), mode.toString(), options, rows});
    return new Saved(context);
  }

  /** The columns of a stream. Those of a table by name are brought by Spark, as the catalog has them, and are no wish of the user's. */
  public scala.Tuple2 sourceSchema(SQLContext context, scala.Option schema, String name, scala.collection.immutable.Map parameters) {
    boolean isNamed = DeltaSink.taken(DeltaSink.path(parameters)) != null;
    String declared = isNamed || schema.isEmpty() || ((StructType) schema.get()).isEmpty() ? null : ((StructType) schema.get()).json();
    Object found = Python.ask("stream columns", new Object[] {context.sparkSession(), DeltaSink.options(parameters), declared});
    return new scala.Tuple2(shortName(), DataType.fromJson((String) found));
  }

  public Source createSource(
      SQLContext context, String checkpoint, scala.Option schema, String name, scala.collection.immutable.Map parameters) {
    Object opened = Python.ask("open stream", new Object[] {context.sparkSession(), DeltaSink.options(parameters), checkpoint});
    return new DeltaStream(context.sparkSession(), (String) opened);
  }

  public Sink createSink(SQLContext context, scala.collection.immutable.Map parameters, scala.collection.immutable.Seq partitions, OutputMode mode) {
    return new DeltaSink(context.sparkSession(), parameters, partitions, mode);
  }

  /** What Spark asks for after a save. */
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
