package delta.server;

import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.internal.SQLConf$;

/** Which settings clients may have: those known to be about how rows are computed, read and shown, and none else. */
public final class ClientSettings {
  /** Where data files of a table may be outside its folder. */
  static final String PLACES = "spark.anabranch.allowedPathPrefixes";
  /** Families of Spark's settings, without what is in REFUSED. */
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

  /** Throws where a client has set what it may not. */
  public static void check(org.apache.spark.sql.classic.SparkSession session) {
    Map all = scala.jdk.javaapi.CollectionConverters.asJava(session.sessionState().conf().getAllConfs());
    for (Iterator each = all.entrySet().iterator(); each.hasNext();) {
      Map.Entry setting = (Map.Entry) each.next();
      String key = (String) setting.getKey();
      Object value = setting.getValue();
      if (OnlyWarehouse.isOurs(key) || isOfServer(session, key, value) || isDefault(key, value)) continue;
      if (key.equals("spark.sql.catalog.spark_catalog") && value.equals("delta.DeltaCatalog")) continue;
      if (!key.equals("spark.sql.warehouse.dir")) check(key, (String) value);
    }
  }

  /** The driver's settings, and those of Hive that the server itself was started with. */
  private static boolean isOfServer(org.apache.spark.sql.classic.SparkSession session, String key, Object value) {
    return value.equals(session.sparkContext().conf().get(key, null)) || value.equals(session.sparkContext().hadoopConfiguration().getRaw(key));
  }

  /** Throws where a client may not set it to that value, or take it back where there is none. */
  public static void check(String key, String value) {
    if (!isAllowed(key)) throw OnlyWarehouse.refused("the setting " + key);
    // Spark puts in variables of the environment and properties of the JVM when it reads a setting.
    if (value != null && value.indexOf("${") >= 0) throw OnlyWarehouse.refused("a variable in the value of the setting " + key);
  }

  /** Streams bring with their checkpoint what they began with: classes of Spark's own among it. */
  private static boolean isDefault(String key, Object value) {
    return !key.equals("spark.sql.variable.substitute") && SQLConf$.MODULE$.containsConfigKey(key) && value.equals(SQLConf$.MODULE$.getConfigEntry(key).defaultValueString());
  }

  private static boolean isAllowed(String key) {
    String small = key.toLowerCase(Locale.ROOT);
    if (REFUSED.matcher(small).matches() || OnlyWarehouse.isOurs(key)) return false;
    // Variables of the client's own have no dot.
    return key.indexOf('.') < 0 || ALLOWED.matcher(small).matches();
  }
}
