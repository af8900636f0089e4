package delta.server;

import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.SQLConf$;

/** Which settings clients may have: Spark's own for statements, and none that names a class, a folder or a file system. */
public final class ClientSettings {
  private static final String[] OURS = {"spark.databricks.", "spark.anabranch.", "spark.connect.", "hive.server2.", "spark.sql.thriftserver."};
  /** Where data files of a table may be outside its folder. */
  private static final String PLACES = "spark.anabranch.allowedpathprefixes";
  private static final Pattern REFUSED = Pattern.compile(".*(class|classes|location|dir|path|paths|extensions)$|spark\\.sql\\.catalog\\..*");

  private ClientSettings() {}

  /** Throws where a client has set what it may not. Statements that take it back are let through. */
  public static void check(org.apache.spark.sql.classic.SparkSession session, LogicalPlan plan) {
    String name = plan.nodeName();
    if (name.equals("SetCommand") || name.equals("ResetCommand")) return;
    Map all = scala.jdk.javaapi.CollectionConverters.asJava(session.sessionState().conf().getAllConfs());
    for (Iterator each = all.entrySet().iterator(); each.hasNext();) {
      Map.Entry setting = (Map.Entry) each.next();
      String key = (String) setting.getKey();
      if (isAllowed(key) || setting.getValue().equals(session.sparkContext().conf().get(key, null))) continue;
      if (key.equals("spark.sql.catalog.spark_catalog") && setting.getValue().equals("delta.DeltaCatalog")) continue;
      if (key.equals("spark.sql.warehouse.dir")) continue;
      throw OnlyWarehouse.refused("the setting " + key + " of this session");
    }
  }

  /** Throws where a client may not set it. */
  public static void check(String key) {
    if (!isAllowed(key)) throw OnlyWarehouse.refused("the setting " + key);
  }

  private static boolean isAllowed(String key) {
    String small = key.toLowerCase(Locale.ROOT);
    if (small.startsWith(PLACES) || REFUSED.matcher(small).matches()) return false;
    // Variables of the client's own have no dot.
    if (key.indexOf('.') < 0 || SQLConf$.MODULE$.containsConfigKey(key)) return true;
    for (int i = 0; i < OURS.length; i++) if (small.startsWith(OURS[i])) return true;
    return false;
  }
}
