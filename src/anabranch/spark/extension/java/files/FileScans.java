package anabranch;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.WholeStageCodegenExec$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** The rows of data files as a DataFrame, made by one call from Python. */
public final class FileScans {
  /** Fields that a scan adds to those of the table: file id, hidden rows, row index and its struct. */
  private static final int ADDED_FIELDS = 4;

  private FileScans() {}

  /** A buffer for names, for `append` and then for `files`. */
  public static ByteBuffer buffer(int length) {
    return ByteBuffer.allocate(length);
  }

  public static void append(ByteBuffer buffer, byte[] part) {
    buffer.put(part);
  }

  /**
   * See `ListedFiles.Files`.
   *
   * @param names a byte[], or a full `buffer`; so is `sizesAndTimes`
   */
  public static ListedFiles.Files files(String digest, String root, Object names, byte[] nameEnds, Object sizesAndTimes, byte[] groupOf,
      int groupCount, byte[] valueLengths, byte[] values, StructType groupSchema, String timeZone, byte[] hasHiddenRows) {
    return new ListedFiles.Files(digest, root, bytes(names), nameEnds, bytes(sizesAndTimes), groupOf, Integer.valueOf(groupCount),
        valueLengths, values, groupSchema, timeZone, hasHiddenRows);
  }

  private static byte[] bytes(Object sent) {
    return sent instanceof ByteBuffer ? ((ByteBuffer) sent).array() : (byte[]) sent;
  }

  /**
   * @param identity see `ListedFiles`, as for all up to `prunes`
   * @param options keys and values of the reader's options, separated by NUL
   * @param mapped the schema with the physical names or ids of columns in files; null without column mapping
   * @param settings the session whose settings decide how files are assigned to tasks
   */
  public static Object frame(org.apache.spark.sql.classic.SparkSession session, ListedFiles.Files files, String identity, String description,
      StructType partitionSchema, boolean withFileId, boolean withHiddenRows, BiFunction reader, boolean prunes,
      StructType dataSchema, String options, StructType mapped, boolean byId, org.apache.spark.sql.classic.SparkSession settings) {
    ListedFiles index = new ListedFiles(
        files, identity, description, partitionSchema, Boolean.valueOf(withFileId), Boolean.valueOf(withHiddenRows));
    ParquetFileFormat format = new MappedParquet(mapped, Boolean.valueOf(byId));
    java.util.Map optionMap = new java.util.HashMap();
    String[] parts = options.split("\0", -1);
    for (int i = 0; i + 1 < parts.length; i += 2) optionMap.put(parts[i], parts[i + 1]);
    HadoopFsRelation relation = new HadoopFsRelation(index.readBy(reader, prunes), partitionSchema, dataSchema, scala.Option.empty(),
        format, PlanFunctions.scalaMap(optionMap), settings);
    return session.baseRelationToDataFrame(relation);
  }

  /** Whether Spark reads these columns, and those that a scan adds, in batches, and filters rows without copying them. */
  public static boolean isColumnar(org.apache.spark.sql.classic.SparkSession session, StructType schema) {
    SQLConf conf = session.sessionState().conf();
    StructType scanned = schema;
    for (int i = 0; i < ADDED_FIELDS; i++) scanned = scanned.add("__anabranch_" + i, DataTypes.LongType);
    return conf.wholeStageEnabled() && !WholeStageCodegenExec$.MODULE$.isTooManyFields(conf, scanned)
        && new ParquetFileFormat().supportBatch(session, schema);
  }

  /**
   * The rows without some columns, and with another name for one.
   *
   * @param dropped names, separated by NUL; the rows need not have them, nor the column that is renamed
   */
  public static Object finished(org.apache.spark.sql.classic.Dataset rows, String dropped, String renamed, String name) {
    Set left = new HashSet(Arrays.asList((Object[]) dropped.split("\0", -1)));
    LogicalPlan plan = rows.queryExecution().analyzed();
    List columns = new ArrayList();
    for (int i = 0; i < plan.output().size(); i++) {
      Attribute column = (Attribute) plan.output().apply(i);
      if (left.contains(column.name())) continue;
      columns.add(column.name().equals(renamed) ? aliased(column, name) : column);
    }
    Seq kept = scala.jdk.javaapi.CollectionConverters.asScala(columns).toList();
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) rows.sparkSession();
    return org.apache.spark.sql.classic.Dataset.ofRows(session, new Project(kept, plan));
  }

  private static Alias aliased(Attribute column, String name) {
    return new Alias(column, name, NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$, scala.Option.empty(), (Seq) Nil$.MODULE$);
  }
}
