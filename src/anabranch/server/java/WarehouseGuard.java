package anabranch.server;

import delta.DeltaAnalysisError;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.URI;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.unsafe.Platform;
import scala.collection.mutable.Buffer;

/**
 * Restricts clients to files in the warehouse's folder, by two rules in the sessions that are created while the restriction is active.
 * The first checks statements as they were written, before Spark opens a file; the second checks resolved plans.
 */
public final class WarehouseGuard {
  private static final String REFUSED = "ANABRANCH_REFUSED_TO_CLIENTS";
  private static final String WAY_OUT = "Use a path below it, or a table by name. The server was started with --warehouse-only.";
  /** A segment `..`, also inside the braces of a pattern. */
  private static final Pattern UP = Pattern.compile("(^|[/{},\\[\\]\\\\])\\.\\.($|[/{},\\[\\]\\\\])");
  /** A dot that a pattern may complete to two. */
  private static final Pattern HALF_UP =
      Pattern.compile("[{},\\[\\]\\\\]\\.($|[/{},\\[\\]\\\\])|(^|[/{},\\[\\]\\\\])\\.[{},\\[\\]\\\\]");
  private static final Map SESSIONS = Collections.synchronizedMap(new WeakHashMap());
  private static volatile URI root;
  /** The folder of the metastore in the warehouse, which clients may not read, or null. */
  private static volatile String metastore;
  private static URI defaultFileSystem;
  private static volatile Map fileSettings = Collections.EMPTY_MAP;

  private WarehouseGuard() {}

  /** Activates the restriction, for sessions that the application creates from now on. */
  public static synchronized void begin(org.apache.spark.sql.classic.SparkSession session, String warehouse, String metastore, String scratch)
      throws IOException, ReflectiveOperationException {
    defaultFileSystem = FileSystem.getDefaultUri(session.sparkContext().hadoopConfiguration());
    URI location = new Path(warehouse).toUri();
    WarehouseGuard.metastore = metastore == null ? null : new File(metastore).getCanonicalPath();
    root = isLocal(location) ? new File(location.getPath()).getCanonicalFile().toURI() : qualified(location);
    fileSettings = fileSettings(session.sparkContext().conf().get(ClientSettings.ALLOWED_PREFIXES, ""), scratch);
    // Executors on other machines need the jar for RestrictedFiles; they fetch it as a user's jar.
    if (!session.sparkContext().isLocal())
      session.sparkContext().addJar(RestrictedFiles.class.getProtectionDomain().getCodeSource().getLocation().toString());
    if (hasRules(session.extensions())) return;
    session.extensions().injectHintResolutionRule(new RuleBuilder(false));
    session.extensions().injectCheckRule(new RuleBuilder(true));
  }

  private static boolean hasRules(SparkSessionExtensions extensions) throws ReflectiveOperationException {
    Field rules = SparkSessionExtensions.class.getDeclaredField("checkRuleBuilders");
    rules.setAccessible(true);
    Buffer builders = (Buffer) rules.get(extensions);
    for (int i = 0; i < builders.size(); i++) if (builders.apply(i) instanceof RuleBuilder) return true;
    return false;
  }

  /** Ends the restriction, also for sessions that exist. */
  public static void end() {
    root = null;
  }

  /** Whether clients are restricted to the warehouse. */
  public static boolean isActive() {
    return root != null;
  }

  /** Whether the session is restricted to the warehouse. */
  public static boolean covers(Object session) {
    return root != null && SESSIONS.containsKey(session);
  }

  /** Throws if the path is outside the warehouse. */
  public static void check(String text) {
    if (root == null || text.isEmpty()) return;
    boolean inside;
    try {
      inside = !UP.matcher(text).find() && !HALF_UP.matcher(text).find() && isInside(new Path(text).toUri());
    } catch (IOException error) {
      inside = false;
    } catch (IllegalArgumentException error) {
      inside = false;
    }
    if (!inside) throw outside(text);
  }

  /** Throws the error for a path outside the warehouse. Callers write `throw outside(…)`, so that the compiler sees that they end. */
  static RuntimeException outside(String text) {
    String problem = "Refused " + text + ", which is not below the warehouse's folder " + root + ". ";
    return thrown("ANABRANCH_PATH_OUTSIDE_WAREHOUSE", problem + WAY_OUT);
  }

  /** Makes the session open local files by `RestrictedFiles`. `ClientSettings` keeps clients from changing that. */
  static void restrictFiles(org.apache.spark.sql.classic.SparkSession session) {
    SQLConf settings = session.sessionState().conf();
    for (Iterator entries = fileSettings.entrySet().iterator(); entries.hasNext();) {
      Map.Entry setting = (Map.Entry) entries.next();
      String key = (String) setting.getKey();
      if (!setting.getValue().equals(settings.getConfString(key, null))) settings.setConfString(key, (String) setting.getValue());
    }
  }

  /** Whether the setting is one by which the session opens files by `RestrictedFiles`. */
  static boolean isFileSetting(String key) {
    return fileSettings.containsKey(key);
  }

  private static Map fileSettings(String allowed, String scratch) throws IOException {
    StringBuilder folders = new StringBuilder(isLocal(root) ? new File(root.getPath()).getCanonicalPath() : "");
    String[] prefixes = allowed.split(",");
    for (int i = 0; i < prefixes.length; i++) {
      String prefix = prefixes[i].trim();
      if (!prefix.isEmpty() && isLocal(new Path(prefix).toUri()))
        folders.append(RestrictedFiles.SEPARATOR).append(new File(new Path(prefix).toUri().getPath()).getCanonicalPath());
    }
    Map settings = new HashMap();
    settings.put("fs.file.impl", RestrictedFiles.class.getName());
    // Hadoop's cache would share file systems between all sessions, whatever their settings.
    settings.put("fs.file.impl.disable.cache", "true");
    settings.put(RestrictedFiles.FOLDERS, folders.toString());
    // Spark's temporary checkpoints of streams without a checkpoint folder, and the scratch files of anabranch's writes.
    String checkpoints = new File(System.getProperty("java.io.tmpdir")).getCanonicalPath() + "/temporary-";
    settings.put(RestrictedFiles.OWN, checkpoints + RestrictedFiles.SEPARATOR + scratch);
    settings.put(RestrictedFiles.METASTORE, metastore == null ? "" : metastore);
    return settings;
  }

  /** Throws if an option of a reader or a writer names a file outside the warehouse, another file system, or a class. */
  public static void checkOption(String key, String value) {
    FormatOptions.check(key, value);
  }

  /** Throws the error for a feature that can reach files without a check. */
  static RuntimeException refused(String what) {
    return thrown(REFUSED, "Refused " + what + ": it may reach files outside the warehouse. The server was started with --warehouse-only.");
  }

  /** Throws the error for an entry of a JDBC connection that is not a setting or variable of its session. */
  static RuntimeException denied(String what) {
    return thrown(REFUSED, "Refused " + what + ": a connection may set settings and variables of its session, but nothing of the server.");
  }

  private static RuntimeException thrown(String condition, String message) {
    Platform.throwException(new DeltaAnalysisError(condition, "42501", message, 0, null));
    return null;
  }

  private static boolean isInside(URI path) throws IOException {
    if (!isLocal(path)) {
      if (isLocal(root)) return false;
      URI full = qualified(path);
      boolean same = root.getScheme().equals(full.getScheme()) && String.valueOf(root.getAuthority()).equals(String.valueOf(full.getAuthority()));
      return same && isBelow(full.getPath(), root.getPath());
    }
    if (!isLocal(root) || path.getAuthority() != null) return false;
    // With links resolved.
    String resolved = new File(path.getPath()).getCanonicalPath();
    if (metastore != null && (resolved.equals(metastore) || isBelow(resolved, metastore))) return false;
    return isBelow(resolved, root.getPath());
  }

  private static boolean isBelow(String path, String folder) {
    String start = folder.endsWith("/") ? folder : folder + "/";
    return path.startsWith(start) && path.length() > start.length();
  }

  private static boolean isLocal(URI path) {
    String scheme = path.getScheme() == null ? defaultFileSystem.getScheme() : path.getScheme();
    return "file".equalsIgnoreCase(scheme);
  }

  private static URI qualified(URI path) {
    if (path.getScheme() != null) return path.normalize();
    return URI.create(defaultFileSystem.getScheme() + "://" + (defaultFileSystem.getAuthority() == null ? "" : defaultFileSystem.getAuthority())).resolve(path.normalize());
  }

  /** Creates one of the rules for each session, as SparkSessionExtensions needs it. */
  public static final class RuleBuilder extends scala.runtime.AbstractFunction1 {
    private final boolean isForResolvedPlans;

    public RuleBuilder(boolean isForResolvedPlans) {
      this.isForResolvedPlans = isForResolvedPlans;
    }

    public Object apply(Object created) {
      if (root != null) SESSIONS.put(created, Boolean.TRUE);
      org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) created;
      return isForResolvedPlans ? (Object) new CheckResolvedPlans(session) : new CheckParsedPlans(session);
    }
  }

  /** Checks statements before Spark resolves them. */
  public static final class CheckParsedPlans extends org.apache.spark.sql.catalyst.rules.Rule {
    private final org.apache.spark.sql.classic.SparkSession session;

    public CheckParsedPlans(org.apache.spark.sql.classic.SparkSession session) {
      this.session = session;
    }

    public String ruleName() {
      return "anabranch.server.WarehouseGuard";
    }

    public TreeNode apply(TreeNode plan) {
      if (covers(session)) {
        restrictFiles(session);
        new PlanChecker().check((LogicalPlan) plan);
      }
      return plan;
    }
  }

  /** Checks plans that Spark has resolved. */
  public static final class CheckResolvedPlans extends scala.runtime.AbstractFunction1 {
    private final org.apache.spark.sql.classic.SparkSession session;

    public CheckResolvedPlans(org.apache.spark.sql.classic.SparkSession session) {
      this.session = session;
    }

    public Object apply(Object plan) {
      if (!covers(session)) return scala.runtime.BoxedUnit.UNIT;
      try {
        ClientSettings.check(session);
        new PlanChecker().check((LogicalPlan) plan);
      } catch (Exception refused) {
        // Spark replaces an AnalysisException here by a copy with the plan in its message, so an unchecked error is thrown.
        Platform.throwException(refused instanceof DeltaAnalysisError ? ((DeltaAnalysisError) refused).unchecked() : refused);
      }
      return scala.runtime.BoxedUnit.UNIT;
    }
  }
}
