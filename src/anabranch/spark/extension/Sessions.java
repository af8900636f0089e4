package delta;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.internal.SessionState;
import scala.collection.mutable.Buffer;

/**
 * Sessions that know Delta. What delta-spark's jar gives an application at its start, a running one gets in the same places:
 * sessions made later find it among the application's extensions, and the session that is there has it put into its fields.
 * All of it can be taken back.
 */
public final class Sessions {
  private static final String CATALOG_KEY = "spark.sql.catalog.spark_catalog";
  private static final String CATALOG = "delta.DeltaCatalog";
  /** Fields of the analyzer. */
  private static final String RULES = "extendedResolutionRules";
  private static final String FIRST_RULES = "hintResolutionRules";
  private static final String JARS_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog";
  /** By session, of those enabled and those made since: the catalog's setting as it was, null for none, and the first options. */
  private static final Map BEFORE = Collections.synchronizedMap(new WeakHashMap());
  /** By extensions of an application: the catalog's setting as it was. */
  private static final Map APPLICATIONS = Collections.synchronizedMap(new WeakHashMap());

  private Sessions() {}

  /** Where delta-spark's jar is, if the driver has it; null if not. */
  public static String jar() {
    try {
      Class found = Class.forName("io.delta.sql.DeltaSparkSessionExtension", false, Thread.currentThread().getContextClassLoader());
      java.security.CodeSource source = found.getProtectionDomain().getCodeSource();
      return source == null ? found.getName() : source.getLocation().toString();
    } catch (ClassNotFoundException absent) {
      return null;
    }
  }

  /** The session catalog that the session is set to have and that is none of ours, or null. */
  public static String otherCatalog(org.apache.spark.sql.classic.SparkSession session) {
    String set = session.conf().get(CATALOG_KEY, "builtin");
    // Without its jar, delta-spark's would be no catalog at all.
    return set.equals("builtin") || set.equals(CATALOG) || set.equals(JARS_CATALOG) ? null : set;
  }

  /**
   * Lets the session know Delta, and every session that its application makes from now on.
   *
   * @param statements a pattern: texts that it finds are shown to us before Spark's parser reads them
   * @param functions names of table functions, parted by NUL
   */
  public static synchronized void enable(org.apache.spark.sql.classic.SparkSession session, String statements, String functions)
      throws Exception {
    SparkSessionExtensions extensions = session.extensions();
    // What Spark makes of a session at first use would take what is injected now, and below get it again.
    SessionState state = session.sessionState();
    state.analyzer();
    if (!hasOurs(extensions)) {
      // Spark asks for optimizer rules anew for each plan, so that these serve running sessions, too.
      extensions.injectOptimizerRule(new LaterSessions("versions"));
      extensions.injectHintResolutionRule(new LaterSessions("paths"));
      extensions.injectHintResolutionRule(new LaterSessions("inserts"));
      extensions.injectHintResolutionRule(new LaterSessions("keywords"));
      extensions.injectResolutionRule(new LaterSessions("resolve"));
      extensions.injectParser(new LaterParsers(statements));
      String[] names = functions.split("\0");
      for (int i = 0; i < names.length; i++) extensions.injectTableFunction(new TableFunction(names[i]).injected());
      // Sessions made later begin with the settings of the application.
      APPLICATIONS.put(extensions, session.sparkContext().conf().get(CATALOG_KEY, null));
      session.sparkContext().conf().set(CATALOG_KEY, CATALOG);
    }
    if (!isOurs(state.sqlParser())) putParser(state, Parse.around(state.sqlParser(), statements));
    // Behind those of Spark's that resolve tables of other formats, so that the source of a MERGE is resolved when we look at it.
    addRules(state, RULES, new Object[] {new Resolve(session)}, "ResolveSessionCatalog");
    addRules(state, FIRST_RULES, new Object[] {new PathsAreTables(session), new Inserts(session), new Keywords(session)}, null);
    extensions.registerTableFunctions(state.tableFunctionRegistry());
    OtherFormats.watch(session);
    String set = session.conf().get(CATALOG_KEY, null);
    if (CATALOG.equals(set)) return;
    // A builder's options come before the settings of the application.
    Object options = get(session, "initialSessionOptions");
    BEFORE.put(session, new Object[] {set, options});
    put(session, "initialSessionOptions", ((scala.collection.immutable.Map) options).$minus(CATALOG_KEY));
    session.conf().set(CATALOG_KEY, CATALOG);
  }

  /** Whether the session knows Delta. */
  public static boolean isEnabled(org.apache.spark.sql.classic.SparkSession session) {
    return Python.isOpen() && isOurs(session.sessionState().sqlParser());
  }

  /** The session that has the catalog under that name; null while none has. */
  public static Object of(String name, Object catalog) {
    Object[] known = BEFORE.keySet().toArray();
    for (int i = 0; i < known.length; i++) {
      org.apache.spark.sql.classic.SparkSession each = (org.apache.spark.sql.classic.SparkSession) known[i];
      if (each != null && catalogs(each.sessionState()).get(name) == catalog) return each;
    }
    return null;
  }

  /** The catalogs that a session has loaded, by name. */
  private static Map catalogs(SessionState state) {
    try {
      return scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.mutable.Map) get(state.catalogManager(), "catalogs"));
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** A session is being made that finds what is ours among the extensions. */
  public static void made(org.apache.spark.sql.classic.SparkSession session) {
    BEFORE.put(session, new Object[] {APPLICATIONS.get(session.extensions()), null});
  }

  /** Takes all of it back, from this session alone. */
  public static synchronized void disable(org.apache.spark.sql.classic.SparkSession session) throws Exception {
    Object[] before = (Object[]) BEFORE.remove(session);
    SessionState state = session.sessionState();
    if (isOurs(state.sqlParser())) putParser(state, ((Parse) Proxy.getInvocationHandler(state.sqlParser())).spark);
    removeRules(state, RULES);
    removeRules(state, FIRST_RULES);
    removeFunctions(state);
    if (before != null && before[1] != null) put(session, "initialSessionOptions", before[1]);
    if (CATALOG.equals(session.conf().get(CATALOG_KEY, ""))) session.conf().unset(CATALOG_KEY);
    if (before != null && before[0] != null) session.conf().set(CATALOG_KEY, (String) before[0]);
    // Unset, the key is still found among the application's settings.
    else if (CATALOG.equals(session.conf().get(CATALOG_KEY, ""))) session.conf().set(CATALOG_KEY, "builtin");
    catalogs(state).remove("spark_catalog");
  }

  /** Takes all of it back, from the application of the session and from each of its sessions. */
  public static synchronized void disableAll(org.apache.spark.sql.classic.SparkSession session) throws Exception {
    SparkSessionExtensions extensions = session.extensions();
    List buffers = buffers(extensions);
    for (int i = 0; i < buffers.size(); i++) removeOurs((Buffer) buffers.get(i));
    if (CATALOG.equals(session.sparkContext().conf().get(CATALOG_KEY, ""))) session.sparkContext().conf().remove(CATALOG_KEY);
    Object set = APPLICATIONS.remove(extensions);
    if (set != null) session.sparkContext().conf().set(CATALOG_KEY, (String) set);
    OtherFormats.unwatch(session);
    Object[] known = BEFORE.keySet().toArray();
    for (int i = 0; i < known.length; i++) {
      org.apache.spark.sql.classic.SparkSession each = (org.apache.spark.sql.classic.SparkSession) known[i];
      if (each != null && each.extensions() == extensions) disable(each);
    }
    disable(session);
  }

  /** Whether sessions made from now on get what is ours. */
  private static boolean hasOurs(SparkSessionExtensions extensions) throws Exception {
    List buffers = buffers(extensions);
    for (int i = 0; i < buffers.size(); i++) if (!places((Buffer) buffers.get(i)).isEmpty()) return true;
    return false;
  }

  /** The lists that an application keeps of what was injected. */
  private static List buffers(SparkSessionExtensions extensions) throws Exception {
    List found = new ArrayList();
    Field[] fields = SparkSessionExtensions.class.getDeclaredFields();
    for (int i = 0; i < fields.length; i++) {
      if (!Buffer.class.isAssignableFrom(fields[i].getType())) continue;
      fields[i].setAccessible(true);
      found.add(fields[i].get(extensions));
    }
    return found;
  }

  private static boolean removeOurs(Buffer things) {
    List places = places(things);
    for (int i = places.size() - 1; i >= 0; i--) things.remove(((Integer) places.get(i)).intValue());
    return !places.isEmpty();
  }

  /** Where among these things ours are; functions are injected with their names. */
  private static List places(Buffer things) {
    List found = new ArrayList();
    for (int i = 0; i < things.size(); i++) {
      Object thing = things.apply(i);
      if (thing instanceof scala.Tuple3) thing = ((scala.Tuple3) thing)._3();
      if (thing.getClass().getName().startsWith("delta.")) found.add(Integer.valueOf(i));
    }
    return found;
  }

  /** Of the session, and of its catalog, which reads the texts of views, and in Spark 4.0 those of EXECUTE IMMEDIATE. */
  private static void putParser(SessionState state, Object parser) throws Exception {
    put(state, "sqlParser", parser);
    put(state.catalog(), "parser", parser);
  }

  /** Before the rule of that class, or behind all where there is none; without a name, before all. */
  private static void addRules(SessionState state, String list, Object[] ours, String before) throws Exception {
    Buffer rules = ruleList(state, list);
    if (!places(rules).isEmpty()) return;
    int place = 0;
    while (before != null && place < rules.length() && !rules.apply(place).getClass().getSimpleName().equals(before)) place++;
    for (int i = 0; i < ours.length; i++) rules.insert(place + i, ours[i]);
    put(state.analyzer(), list, rules.toSeq());
  }

  private static void removeRules(SessionState state, String list) throws Exception {
    Buffer rules = ruleList(state, list);
    if (removeOurs(rules)) put(state.analyzer(), list, rules.toSeq());
  }

  private static Buffer ruleList(SessionState state, String list) throws Exception {
    return ((scala.collection.immutable.Seq) get(state.analyzer(), list)).toBuffer();
  }

  private static void removeFunctions(SessionState state) throws Exception {
    Object known = get(state.tableFunctionRegistry(), "functionBuilders");
    Iterator values = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.mutable.Map) known).values().iterator();
    while (values.hasNext()) if (((scala.Tuple2) values.next())._2() instanceof TableFunction) values.remove();
  }

  private static boolean isOurs(ParserInterface parser) {
    if (!Proxy.isProxyClass(parser.getClass())) return false;
    InvocationHandler handler = Proxy.getInvocationHandler(parser);
    return handler instanceof Parse;
  }

  private static Object get(Object thing, String name) throws Exception {
    return field(thing, name).get(thing);
  }

  private static void put(Object thing, String name, Object value) throws Exception {
    field(thing, name).set(thing, value);
  }

  private static Field field(Object thing, String name) throws Exception {
    for (Class of = thing.getClass(); of != null; of = of.getSuperclass()) {
      Field[] fields = of.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (!fields[i].getName().equals(name)) continue;
        fields[i].setAccessible(true);
        return fields[i];
      }
    }
    throw new NoSuchFieldException(thing.getClass().getName() + "." + name);
  }
}
