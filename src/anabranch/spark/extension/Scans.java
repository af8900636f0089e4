package delta;

import java.util.function.BiFunction;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

/** The rows of data files as a DataFrame, made in one call of Python's. */
public final class Scans {
  private Scans() {}

  /** See `ListedFiles.Files`. */
  public static ListedFiles.Files files(String digest, String root, String names, byte[] sizesAndTimes, byte[] groupOf,
      int groupCount, byte[] valueLengths, byte[] values, StructType groupSchema, String timeZone, byte[] hasHiddenRows) {
    return new ListedFiles.Files(digest, root, names, sizesAndTimes, groupOf, Integer.valueOf(groupCount), valueLengths, values,
        groupSchema, timeZone, hasHiddenRows);
  }

  /**
   * @param identity see `ListedFiles`, as for all up to `reader`
   * @param options keys and values of the reader's options, parted by NUL
   * @param mapped the schema by whose names or ids columns are found in the files; null where their own names are theirs
   * @param settings the session whose settings decide how files are spread over tasks
   */
  public static Object frame(org.apache.spark.sql.classic.SparkSession session, ListedFiles.Files files, String identity, String description,
      StructType partitionSchema, boolean withFileId, boolean withHiddenRows, BiFunction reader, StructType dataSchema,
      String options, StructType mapped, boolean byId, org.apache.spark.sql.classic.SparkSession settings) {
    ListedFiles index = new ListedFiles(
        files, identity, description, partitionSchema, Boolean.valueOf(withFileId), Boolean.valueOf(withHiddenRows));
    ParquetFileFormat format = new MappedParquet(mapped, Boolean.valueOf(byId));
    java.util.Map told = new java.util.HashMap();
    String[] parts = options.split("\0", -1);
    for (int i = 0; i + 1 < parts.length; i += 2) told.put(parts[i], parts[i + 1]);
    HadoopFsRelation relation = new HadoopFsRelation(index.readBy(reader), partitionSchema, dataSchema, scala.Option.empty(),
        format, Plans.scalaMap(told), settings);
    return session.baseRelationToDataFrame(relation);
  }
}
