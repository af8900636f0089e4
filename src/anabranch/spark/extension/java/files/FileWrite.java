package anabranch;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.spark.SparkContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Empty2Null;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.catalyst.expressions.InterpretedOrdering;
import org.apache.spark.sql.catalyst.expressions.SortOrder$;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileFormatWriter$;
import org.apache.spark.sql.execution.datasources.FileFormatWriter$OutputSpec;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.WriteJobDescription;
import org.apache.spark.sql.execution.datasources.WriteTaskResult;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.immutable.Seq;

/**
 * A write of the rows of a plan as Parquet files: by a job or, for few rows that the driver already has, by the calling thread, which
 * then does what a task of the job would do. A job takes several times as long as that, and makes a file for each core.
 */
public final class FileWrite implements scala.Function0 {
  private static final String MAX_RECORDS = "maxRecordsPerFile";
  private final org.apache.spark.sql.classic.SparkSession session;
  private final SparkPlan plan;
  private final FileFormat format;
  private final FileCommitProtocol committer;
  private final String root;
  private final Seq columns;
  private final Configuration configuration;
  private final Seq partitions;
  private final scala.collection.immutable.Map options;
  private WriteJobDescription description;
  private List rows;

  /** The parameters are those of `FileFormatWriter.write`. */
  public FileWrite(org.apache.spark.sql.classic.SparkSession session, SparkPlan plan, FileFormat format,
      FileCommitProtocol committer, String root, Seq columns, Configuration configuration, Seq partitions,
      scala.collection.immutable.Map options) {
    this.session = session;
    this.plan = plan;
    this.format = format;
    this.committer = committer;
    this.root = root;
    this.columns = columns;
    this.configuration = new TaskConfiguration(configuration);
    this.partitions = partitions;
    this.options = options;
  }

  /**
   * The body of the job.
   *
   * @param settings see `SqlExecutionBody`, as for `writer`
   * @param last one more argument, which later releases have; null for none
   */
  public SqlExecutionBody job(SparkContext context, String settings, Class writer, Object last) {
    Object output = new FileFormatWriter$OutputSpec(root, PlanFunctions.scalaMap(Collections.emptyMap()), columns);
    List arguments = new ArrayList(java.util.Arrays.asList(new Object[] {session, plan, format, committer, output, configuration,
        partitions, scala.Option.empty(), scala.collection.immutable.Nil$.MODULE$, options, Integer.valueOf(0)}));
    if (last != null) arguments.add(last);
    return new SqlExecutionBody(context, settings.split("\0", -1), writer, "write", arguments.toArray());
  }

  /**
   * Writes the rows in this thread, if the driver has them.
   *
   * @return for each file its URL, size in bytes and time of modification, each with NUL behind it; null where a job must compute the
   *     rows, and nothing was written
   */
  public String inDriver() throws Exception {
    rows = DriverRows.of(plan);
    if (rows == null || rows.isEmpty()) return rows == null ? null : "";
    if (!partitions.isEmpty()) {
      rows = withoutEmptyValues(rows);
      Collections.sort(rows, byDirectory());
    }
    Job job = Job.getInstance(configuration);
    job.setOutputKeyClass(Void.class);
    job.setOutputValueClass(InternalRow.class);
    FileOutputFormat.setOutputPath(job, new Path(root));
    CaseInsensitiveMap settings = new CaseInsensitiveMap(options);
    SQLConf conf = session.sessionState().conf();
    Seq stored = stored();
    OutputWriterFactory factory = format.prepareWrite(session, job, settings, schema(stored));
    long recordsMax = settings.contains(MAX_RECORDS) ? Long.parseLong((String) settings.apply(MAX_RECORDS)) : conf.maxRecordsPerFile();
    description = new WriteJobDescription(UUID.randomUUID().toString(), new SerializableConfiguration(job.getConfiguration()), factory,
        columns, stored, partitions, scala.Option.empty(), root, PlanFunctions.scalaMap(Collections.emptyMap()), recordsMax, (String) settings.apply("timeZone"),
        scala.collection.immutable.Nil$.MODULE$);
    return (String) SQLConf$.MODULE$.withExistingConf(conf, this);
  }

  public Object apply() {
    scala.collection.Iterator all = scala.jdk.javaapi.CollectionConverters.asScala(rows.iterator());
    WriteTaskResult result = FileFormatWriter$.MODULE$.executeTask(description, "0", 0, 0, 0, committer, all, scala.Option.empty());
    StringBuilder files = new StringBuilder();
    // The message of `ManifestFileCommitProtocol`: a `SinkFileStatus` for each file, whose package differs between releases.
    List written = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) result.commitMsg().obj());
    for (int i = 0; i < written.size(); i++) {
      scala.Product file = (scala.Product) written.get(i);
      files.append(file.productElement(0)).append('\0').append(file.productElement(1)).append('\0').append(file.productElement(3)).append('\0');
    }
    return files.toString();
  }

  /** The rows with NULL for empty partition values, which are in one directory with NULL, as in a job. */
  private List withoutEmptyValues(List rows) {
    List values = new ArrayList();
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.apply(i);
      values.add(partitions.contains(column) && column.dataType() instanceof StringType ? (Object) new Empty2Null(column) : column);
    }
    InterpretedMutableProjection projection = new InterpretedMutableProjection(FileWriteArguments.seq(values), columns);
    List stored = new ArrayList();
    for (int i = 0; i < rows.size(); i++) stored.add(projection.apply((InternalRow) rows.get(i)).copy());
    return stored;
  }

  private InterpretedOrdering byDirectory() {
    List orders = new ArrayList();
    for (int i = 0; i < partitions.size(); i++)
      orders.add(SortOrder$.MODULE$.apply((Attribute) partitions.apply(i), Ascending$.MODULE$, scala.collection.immutable.Nil$.MODULE$));
    return new InterpretedOrdering(FileWriteArguments.seq(orders), columns);
  }

  /** The columns without those that name directories. */
  private Seq stored() {
    List stored = new ArrayList();
    for (int i = 0; i < columns.size(); i++) if (!partitions.contains(columns.apply(i))) stored.add(columns.apply(i));
    return FileWriteArguments.seq(stored);
  }

  private static StructType schema(Seq columns) {
    StructField[] fields = new StructField[columns.size()];
    for (int i = 0; i < fields.length; i++) {
      Attribute column = (Attribute) columns.apply(i);
      fields[i] = new StructField(column.name(), column.dataType(), column.nullable(), column.metadata());
    }
    return new StructType(fields);
  }
}
