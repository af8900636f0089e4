package anabranch.server;

import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.internal.SQLConf$;

/** The settings that clients may change: a list of those about how rows are computed, read and shown. */
public final class ClientSettings {
  /** The setting of the folders, outside the warehouse, that may hold data files of tables. */
  static final String ALLOWED_PREFIXES = "spark.anabranch.allowedPathPrefixes";
  /** Groups of Spark's settings; those that REFUSED matches are not allowed. */
  private static final Pattern ALLOWED = Pattern.compile("spark\\.databricks\\..*|spark\\.anabranch\\..*|spark\\.connect\\..*|hive\\.server2\\..*|pandas_on_spark\\..*"
      + "|spark\\.sql\\.(adaptive|addpartitioninbatch|allownamed.*|ansi|autobroadcastjointhreshold|avro|binaryoutputstyle"
      + "|broadcasttimeout|bucketing|cache|cartesianproductexec|casesensitive|cbo|charasvarchar|chunkbase64string|codegen"
      + "|collation|columnnameofcorruptrecord|connect|constraintpropagation|crossjoin|csv|cterecursion.*"
      + "|dataframe.*|datetime|debug|decimaloperations|defaultcolumn|defaultsizeinbytes|error|exchange"
      + "|execution|files|function|geospatial|groupby.*|icu|inmemorycolumnarstorage|join|json|jsongenerator"
      + "|keepcommandoutput|lateralcolumnalias.*|leafnodedefaultparallelism|legacy|limit|mapkeydeduppolicy"
      + "|maxbroadcasttablesize|maxmetadatastringlength|maxplanstringlength|maxsinglepartitionbytes|merge|objecthashaggregate"
      + "|operatorpipesyntax.*|optimizer|optimizenullawareantijoin|orc|orderbyordinal|parquet|parser|pivotmaxvalues"
      + "|preservecharvarchartypeinfo|pyspark|readsidecharpadding|repl|requireallclusterkeys.*|scripting"
      + "|selfjoin.*|session\\.timezone|sessionwindow|shuffle|shuffledhashjoin.*|sort|sortmergejoin.*|statistics"
      + "|storeassignmentpolicy|streaming|subexpressionelimination|thriftserver|timestamptype|timetravel.*"
      + "|topksort.*|transposemaxvalues|truncatetable|tvf|union.*|variant|view|window|windowexec|xml)(\\..*)?"
      + "|spark\\.sql\\.sources\\.(default|partition.*|parallelpartition.*|(v2\\.)?bucketing.*|structpredicate.*|validatepartitioncolumns|ignoredatalocality|binaryfile.*)"
      + "|spark\\.sql\\.hive\\.(version|convert.*|verifypartitionpath|metastorepartitionpruning.*|advancedpartition.*|managefilesourcepartitions|gatherfaststats|droppartition.*)");
  private static final Pattern REFUSED = Pattern.compile(".*(class|classes|location|dir|path|paths|extensions|manager|plugins?)$"
      + "|spark\\.anabranch\\.(allowedpathprefixes|user).*|spark\\.sql\\.(legacy\\.setcommand|legacy\\.allowuntyped|optimizer\\.excludedrules).*");

  private ClientSettings() {}

  /** Throws if the session has a setting that its client may not change. */
  public static void check(org.apache.spark.sql.classic.SparkSession session) {
    Map all = scala.jdk.javaapi.CollectionConverters.asJava(session.sessionState().conf().getAllConfs());
    for (Iterator settings = all.entrySet().iterator(); settings.hasNext();) {
      Map.Entry setting = (Map.Entry) settings.next();
      String key = (String) setting.getKey();
      Object value = setting.getValue();
      if (WarehouseGuard.isFileSetting(key) || isOfServer(session, key, value) || isDefault(key, value)) continue;
      if (key.equals("spark.sql.catalog.spark_catalog") && value.equals("delta.DeltaCatalog")) continue;
      if (!key.equals("spark.sql.warehouse.dir")) check(key, (String) value);
    }
  }

  /** Whether the value comes from the driver's settings, or from those of Hive with which the server was started. */
  private static boolean isOfServer(org.apache.spark.sql.classic.SparkSession session, String key, Object value) {
    return value.equals(session.sparkContext().conf().get(key, null)) || value.equals(session.sparkContext().hadoopConfiguration().getRaw(key));
  }

  /** Throws if a client may not set the key to this value, or, with a null value, may not unset it. */
  public static void check(String key, String value) {
    if (!isAllowed(key)) throw WarehouseGuard.refused("the setting " + key);
    // Spark substitutes variables of the environment and properties of the JVM when it reads a setting.
    if (value != null && value.indexOf("${") >= 0) throw WarehouseGuard.refused("a variable in the value of the setting " + key);
  }

  /** Whether the value is Spark's default. A stream restores all settings from its checkpoint, among them classes of Spark. */
  private static boolean isDefault(String key, Object value) {
    return !key.equals("spark.sql.variable.substitute") && SQLConf$.MODULE$.containsConfigKey(key) && value.equals(SQLConf$.MODULE$.getConfigEntry(key).defaultValueString());
  }

  private static boolean isAllowed(String key) {
    String lower = key.toLowerCase(Locale.ROOT);
    if (REFUSED.matcher(lower).matches() || WarehouseGuard.isFileSetting(key)) return false;
    // Names without a dot are the client's own variables.
    return key.indexOf('.') < 0 || ALLOWED.matcher(lower).matches();
  }
}
