package anabranch.server;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Formats and options that clients may use. Names are checked against lists: any other format, SerDe or codec may be the name of a
 * class in the driver, and an option with a dot in its name may be a setting of Hadoop.
 */
final class FormatOptions {
  private static final Set FORMATS = set(new String[] {
      "", "delta", "parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile", "hive", "rate", "rate-micro-batch", "memory",
      "console", "noop", "delta.defaultsource"});
  private static final Set PATHS = set(new String[] {
      "path", "location", "basepath", "checkpointlocation", "schematrackinglocation", "schemalocation", "rowvalidationxsdpath", "avroschemaurl",
      "avro.schema.url", "sourcearchivedir"});
  private static final Set STORED_AS = set(new String[] {"textfile", "sequencefile", "rcfile", "orc", "parquet", "avro"});
  private static final Set CLASSES = set(new String[] {
      "org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.mapred.SequenceFileInputFormat",
      "org.apache.hadoop.mapred.SequenceFileOutputFormat", "org.apache.hadoop.mapred.TextOutputFormat",
      "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat", "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
      "org.apache.hadoop.hive.ql.io.RCFileInputFormat", "org.apache.hadoop.hive.ql.io.RCFileOutputFormat",
      "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
      "org.apache.hadoop.hive.ql.io.orc.OrcSerde", "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
      "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat", "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
      "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat", "org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat",
      "org.apache.hadoop.hive.serde2.avro.AvroSerDe", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
      "org.apache.hadoop.hive.serde2.columnar.ColumnarSerDe", "org.apache.hadoop.hive.serde2.columnar.LazyBinaryColumnarSerDe",
      "org.apache.hadoop.hive.serde2.OpenCSVSerde", "org.apache.hadoop.hive.serde2.RegexSerDe", "org.apache.hadoop.hive.serde2.JsonSerDe",
      "org.apache.hive.hcatalog.data.JsonSerDe"});
  private static final Set CODECS = set(new String[] {
      "", "none", "uncompressed", "bzip2", "deflate", "gzip", "lz4", "lz4_raw", "lz4raw", "lzo", "snappy", "zstd", "zstandard", "brotli", "xz", "zlib"});
  private static final Set CODEC_OPTIONS = set(new String[] {"compression", "codec", "parquet.compression", "parquet.compress", "orc.compress"});
  /** Options with a dot in their name that are not settings of Hadoop, or are harmless ones. */
  private static final Pattern ALLOWED = Pattern.compile("delta\\..*|anabranch\\..*|spark\\.databricks\\..*|(field|line|colelction|collection|mapkey|escape)\\.delim"
      + "|serialization\\.(format|null\\.format|encoding|last\\.column\\.takes\\.rest)|timestamp\\.formats|skip\\.(header|footer)\\.line\\.count|input\\.regex"
      + "|output\\.format\\.string|avro\\.schema\\.(literal|url)|parquet\\.(compression|block\\.size|page\\.size|page\\.row\\.count\\.limit"
      + "|dictionary\\.page\\.size|enable\\.dictionary.*|writer\\.version|bloom\\.filter\\..*|column\\.index\\..*|compression\\.codec\\.zstd\\.level)"
      + "|orc\\.(compress|compress\\.size|stripe\\.size|row\\.index\\.stride|create\\.index|bloom\\.filter\\..*|column\\.encoding\\.direct)");
  /** Table properties that Hive or Parquet would read as their own settings. */
  private static final Pattern SETTINGS_OF_OTHERS = Pattern.compile("storage_handler|(.*\\.)?parquet\\..*|orc\\..*|avro\\..*|serialization\\..*|mapred.*|io\\..*");

  private FormatOptions() {}

  static void checkFormat(String name) {
    if (!FORMATS.contains(name.toLowerCase(Locale.ROOT))) throw WarehouseGuard.refused("the format " + name);
  }

  /** Throws unless clients may use the SerDe, input format or output format. */
  static void checkClass(String name) {
    if (!CLASSES.contains(name)) throw WarehouseGuard.refused("the class " + name);
  }

  static void checkStoredAs(String name) {
    if (!STORED_AS.contains(name.toLowerCase(Locale.ROOT))) throw WarehouseGuard.refused("the format " + name);
  }

  /** Throws unless clients may use the option of a reader, a writer or a SerDe. */
  static void check(String key, String value) {
    String lower = key.toLowerCase(Locale.ROOT);
    if (lower.indexOf('.') >= 0 && (!ALLOWED.matcher(lower).matches() || value.indexOf("${") >= 0)) throw WarehouseGuard.refused("the option " + key);
    if (CODEC_OPTIONS.contains(lower) && !CODECS.contains(value.toLowerCase(Locale.ROOT))) throw WarehouseGuard.refused("the codec " + value);
    if (lower.equals("inputformat") || lower.equals("outputformat") || lower.equals("serde")) checkClass(value);
    if (lower.equals("fileformat")) checkStoredAs(value);
    if (PATHS.contains(lower)) WarehouseGuard.check(value);
    // Sources of Spark's DataSource V2 get their paths as a list in JSON.
    if (!lower.equals("paths")) return;
    String[] parts = value.split("\"");
    for (int i = 1; i < parts.length; i += 2) WarehouseGuard.check(parts[i]);
  }

  /** Throws unless clients may set the property of a table. It may have any name that Hadoop, Hive and Parquet do not read as a setting. */
  static void checkProperty(String key, String value) {
    String lower = key.toLowerCase(Locale.ROOT);
    if (lower.startsWith("fs.") || lower.startsWith("dfs.") || lower.startsWith("hadoop.")) throw WarehouseGuard.refused("the property " + key);
    if (SETTINGS_OF_OTHERS.matcher(lower).matches() && !ALLOWED.matcher(lower).matches()) throw WarehouseGuard.refused("the property " + key);
    if (lower.indexOf('.') < 0 || ALLOWED.matcher(lower).matches()) check(key, value);
  }

  private static Set set(String[] words) {
    return new HashSet(Arrays.asList(words));
  }
}
