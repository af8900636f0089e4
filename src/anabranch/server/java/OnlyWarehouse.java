package delta.server;

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
 * Clients may name no file outside the warehouse's folder: two rules of the sessions that are made while it holds. The first
 * sees statements as they were written, before Spark looks at a file; the second sees what Spark made of them.
 */
public final class OnlyWarehouse {
  private static final String REFUSED = "ANABRANCH_REFUSED_TO_CLIENTS";
  private static final String WAY_OUT = "Use a path below it, or a table by name. The server was started with --warehouse-only.";
  /** A segment of dots, between braces of a pattern too. */
  private static final Pattern UP = Pattern.compile("(^|[/{},\\[\\]\\\\])\\.\\.($|[/{},\\[\\]\\\\])");
  /** A dot of which a pattern may make two. */
  private static final Pattern HALF_UP =
      Pattern.compile("[{},\\[\\]\\\\]\\.($|[/{},\\[\\]\\\\])|(^|[/{},\\[\\]\\\\])\\.[{},\\[\\]\\\\]");
  private static final Map SESSIONS = Collections.synchronizedMap(new WeakHashMap());
  private static volatile URI root;
  /** The folder of the metastore in the warehouse, which is no table; or null. */
  private static volatile String metastore;
  private static URI defaults;
  private static volatile Map fileSettings = Collections.EMPTY_MAP;

  private OnlyWarehouse() {}

  /** From now on, for sessions that the application makes from now on. */
  public static synchronized void begin(org.apache.spark.sql.classic.SparkSession session, String warehouse, String metastore, String scratch)
      throws IOException, ReflectiveOperationException {
    defaults = FileSystem.getDefaultUri(session.sparkContext().hadoopConfiguration());
    URI given = new Path(warehouse).toUri();
    OnlyWarehouse.metastore = metastore == null ? null : new File(metastore).getCanonicalPath();
    root = isLocal(given) ? new File(given.getPath()).getCanonicalFile().toURI() : qualified(given);
    fileSettings = fileSettings(session.sparkContext().conf().get(ClientSettings.PLACES, ""), scratch);
    // Executors elsewhere fetch our jar, as they fetch a user's.
    if (!session.sparkContext().isLocal())
      session.sparkContext().addJar(KeptFiles.class.getProtectionDomain().getCodeSource().getLocation().toString());
    if (hasOurs(session.extensions())) return;
    session.extensions().injectHintResolutionRule(new Later("before"));
    session.extensions().injectCheckRule(new Later("after"));
  }

  private static boolean hasOurs(SparkSessionExtensions extensions) throws ReflectiveOperationException {
    Field rules = SparkSessionExtensions.class.getDeclaredField("checkRuleBuilders");
    rules.setAccessible(true);
    Buffer known = (Buffer) rules.get(extensions);
    for (int i = 0; i < known.size(); i++) if (known.apply(i) instanceof Later) return true;
    return false;
  }

  /** Nothing is refused any more. */
  public static void end() {
    root = null;
  }

  /** Whether clients are kept to the warehouse at all. */
  public static boolean holds() {
    return root != null;
  }

  /** Whether the session is one of those that are kept to the warehouse. */
  public static boolean covers(Object session) {
    return root != null && SESSIONS.containsKey(session);
  }

  /** Throws where the path is outside. */
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

  /** Throws what is thrown for a path outside. Its callers throw what it returns, for the compiler. */
  static RuntimeException outside(String text) {
    String problem = "Refused " + text + ", which is not below the warehouse's folder " + root + ". ";
    return thrown("ANABRANCH_PATH_OUTSIDE_WAREHOUSE", problem + WAY_OUT);
  }

  /** Has the session open local files by `KeptFiles`. Clients may not take it back: see `ClientSettings`. */
  static void keepFiles(org.apache.spark.sql.classic.SparkSession session) {
    SQLConf settings = session.sessionState().conf();
    for (Iterator each = fileSettings.entrySet().iterator(); each.hasNext();) {
      Map.Entry setting = (Map.Entry) each.next();
      String key = (String) setting.getKey();
      if (!setting.getValue().equals(settings.getConfString(key, null))) settings.setConfString(key, (String) setting.getValue());
    }
  }

  /** Whether it is a setting of a client's session that is ours. */
  static boolean isOurs(String key) {
    return fileSettings.containsKey(key);
  }

  private static Map fileSettings(String allowed, String scratch) throws IOException {
    StringBuilder folders = new StringBuilder(isLocal(root) ? new File(root.getPath()).getCanonicalPath() : "");
    String[] places = allowed.split(",");
    for (int i = 0; i < places.length; i++) {
      String place = places[i].trim();
      if (!place.isEmpty() && isLocal(new Path(place).toUri()))
        folders.append(KeptFiles.PART).append(new File(new Path(place).toUri().getPath()).getCanonicalPath());
    }
    Map settings = new HashMap();
    settings.put("fs.file.impl", KeptFiles.class.getName());
    // Hadoop would give those of all sessions to each.
    settings.put("fs.file.impl.disable.cache", "true");
    settings.put(KeptFiles.FOLDERS, folders.toString());
    // Where Spark has the progress of streams that name no folder for it, and our writes what is in their files.
    String streams = new File(System.getProperty("java.io.tmpdir")).getCanonicalPath() + "/temporary-";
    settings.put(KeptFiles.OWN, streams + KeptFiles.PART + scratch);
    settings.put(KeptFiles.METASTORE, metastore == null ? "" : metastore);
    return settings;
  }

  /** Throws where an option of a reader or a writer names a file outside, another file system, or a class. */
  public static void checkOption(String key, String value) {
    FormatOptions.check(key, value);
  }

  /** Throws what is thrown for what reaches files in ways that nobody can follow. */
  static RuntimeException refused(String what) {
    return thrown(REFUSED, "Refused " + what + ": it may reach files outside the warehouse. The server was started with --warehouse-only.");
  }

  /** What comes with a connection of JDBC and is no setting of its session. */
  static RuntimeException denied(String what) {
    return thrown(REFUSED, "Refused " + what + ": with a connection come settings and variables of its session, and nothing of the server's.");
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
    // What links stand for.
    String found = new File(path.getPath()).getCanonicalPath();
    if (metastore != null && (found.equals(metastore) || isBelow(found, metastore))) return false;
    return isBelow(found, root.getPath());
  }

  private static boolean isBelow(String path, String folder) {
    String start = folder.endsWith("/") ? folder : folder + "/";
    return path.startsWith(start) && path.length() > start.length();
  }

  private static boolean isLocal(URI path) {
    String scheme = path.getScheme() == null ? defaults.getScheme() : path.getScheme();
    return "file".equalsIgnoreCase(scheme);
  }

  private static URI qualified(URI path) {
    if (path.getScheme() != null) return path.normalize();
    return URI.create(defaults.getScheme() + "://" + (defaults.getAuthority() == null ? "" : defaults.getAuthority())).resolve(path.normalize());
  }

  /** What SparkSessionExtensions takes: a function for every session, those made later too. */
  public static final class Later extends scala.runtime.AbstractFunction1 {
    private final String what;

    public Later(String what) {
      this.what = what;
    }

    public Object apply(Object session) {
      if (root != null) SESSIONS.put(session, Boolean.TRUE);
      org.apache.spark.sql.classic.SparkSession made = (org.apache.spark.sql.classic.SparkSession) session;
      return what.equals("before") ? (Object) new Before(made) : new After(made);
    }
  }

  /** Sees statements before Spark resolves anything. */
  public static final class Before extends org.apache.spark.sql.catalyst.rules.Rule {
    private final org.apache.spark.sql.classic.SparkSession session;

    public Before(org.apache.spark.sql.classic.SparkSession session) {
      this.session = session;
    }

    public String ruleName() {
      return "delta.server.OnlyWarehouse";
    }

    public TreeNode apply(TreeNode plan) {
      if (covers(session)) {
        keepFiles(session);
        new PlanPaths().check((LogicalPlan) plan);
      }
      return plan;
    }
  }

  /** Sees what Spark has resolved. */
  public static final class After extends scala.runtime.AbstractFunction1 {
    private final org.apache.spark.sql.classic.SparkSession session;

    public After(org.apache.spark.sql.classic.SparkSession session) {
      this.session = session;
    }

    public Object apply(Object plan) {
      if (!covers(session)) return scala.runtime.BoxedUnit.UNIT;
      try {
        ClientSettings.check(session);
        new PlanPaths().check((LogicalPlan) plan);
      } catch (Exception refused) {
        // Of an AnalysisException Spark would make a copy here that has the plan in its message.
        Platform.throwException(refused instanceof DeltaAnalysisError ? ((DeltaAnalysisError) refused).unchecked() : refused);
      }
      return scala.runtime.BoxedUnit.UNIT;
    }
  }
}
