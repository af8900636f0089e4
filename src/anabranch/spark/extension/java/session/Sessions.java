package anabranch;

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
 * Enables sessions for Delta. delta-spark's jar extends an application at its start; this extends a running one in the same places:
 * later sessions get the application's extensions, and the fields of the existing session are set. All of it can be undone.
 */
public final class Sessions {
  private static final String CATALOG_KEY = "spark.sql.catalog.spark_catalog";
  private static final String CATALOG = "delta.DeltaCatalog";
  /** Names of the analyzer's fields. */
  private static final String RULES = "extendedResolutionRules";
  private static final String FIRST_RULES = "hintResolutionRules";
  /** The name of a field of the session's state. */
  private static final String NORMALIZATION = "planNormalizationRules";
  /** Spark's rule that turns statements on tables of its own formats into its commands, and refuses what these cannot do. */
  private static final String CATALOG_RULE = "ResolveSessionCatalog";
  private static final String JARS_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog";
  /** By session, enabled or made later: the previous setting of the catalog, null for none, and the initial options. */
  private static final Map BEFORE = Collections.synchronizedMap(new WeakHashMap());
  /** By extensions of an application: the previous setting of the catalog. */
  private static final Map APPLICATIONS = Collections.synchronizedMap(new WeakHashMap());

  private Sessions() {}

  /** The location of delta-spark's jar, if the driver has it; null if not. */
  public static String jar() {
    try {
      Class extensionClass = Class.forName("io.delta.sql.DeltaSparkSessionExtension", false, Thread.currentThread().getContextClassLoader());
      java.security.CodeSource source = extensionClass.getProtectionDomain().getCodeSource();
      return source == null ? extensionClass.getName() : source.getLocation().toString();
    } catch (ClassNotFoundException absent) {
      return null;
    }
  }

  /** The class of the session catalog by the settings, if it is another than Spark's own and ours; else null. */
  public static String otherCatalog(org.apache.spark.sql.classic.SparkSession session) {
    String set = session.conf().get(CATALOG_KEY, "builtin");
    // Without its jar, delta-spark's class does not exist.
    return set.equals("builtin") || set.equals(CATALOG) || set.equals(JARS_CATALOG) ? null : set;
  }

  /**
   * Enables the session, and all later sessions of its application.
   *
   * @param statements a pattern: statements in which it matches come to us before Spark's parser reads them
   * @param functions names of table functions, separated by NUL
   */
  public static synchronized void enable(org.apache.spark.sql.classic.SparkSession session, String statements, String functions)
      throws Exception {
    SparkSessionExtensions extensions = session.extensions();
    // Made before the injection: otherwise it would include our rules, which are added again below.
    SessionState state = session.sessionState();
    state.analyzer();
    if (!hasOurs(extensions)) {
      // Spark makes optimizer rules again for each plan, so these also apply to running sessions.
      extensions.injectOptimizerRule(new RuleBuilder("versions"));
      extensions.injectPreCBORule(new RuleBuilder("reads"));
      extensions.injectPlanNormalizationRule(new RuleBuilder("transactions"));
      extensions.injectHintResolutionRule(new RuleBuilder("paths"));
      extensions.injectHintResolutionRule(new RuleBuilder("inserts"));
      extensions.injectHintResolutionRule(new RuleBuilder("keywords"));
      extensions.injectResolutionRule(new RuleBuilder("resolve"));
      extensions.injectParser(new ParserBuilder(statements));
      String[] names = functions.split("\0");
      for (int i = 0; i < names.length; i++) extensions.injectTableFunction(new TableFunction(names[i]).injected());
      // Later sessions start with the settings of the application.
      APPLICATIONS.put(extensions, session.sparkContext().conf().get(CATALOG_KEY, null));
      session.sparkContext().conf().set(CATALOG_KEY, CATALOG);
    }
    if (!isOurs(state.sqlParser())) putParser(state, DeltaParser.around(state.sqlParser(), statements, null));
    // After Spark's rules that resolve tables of other formats, so that the source of a MERGE is resolved before ours.
    addRules(state, RULES, new Object[] {new ResolveDeltaTables(session)}, CATALOG_RULE);
    addRules(state, FIRST_RULES, new Object[] {new ResolveTablePaths(), new ResolveInserts(session), new ResolveUpdateDefaults(session)}, null);
    Buffer normalizing = state.planNormalizationRules().toBuffer();
    if (indexesOfOurs(normalizing).isEmpty()) {
      normalizing.append(new Transactions.Normalize(session));
      put(state, NORMALIZATION, normalizing.toSeq());
    }
    extensions.registerTableFunctions(state.tableFunctionRegistry());
    CheckTableFormat.watch(session);
    String set = session.conf().get(CATALOG_KEY, null);
    if (CATALOG.equals(set)) return;
    // A builder's options come before the settings of the application.
    Object options = get(session, "initialSessionOptions");
    BEFORE.put(session, new Object[] {set, options});
    put(session, "initialSessionOptions", ((scala.collection.immutable.Map) options).$minus(CATALOG_KEY));
    session.conf().set(CATALOG_KEY, CATALOG);
  }

  /** Whether the session is enabled. */
  public static boolean isEnabled(org.apache.spark.sql.classic.SparkSession session) {
    return PythonEndpoint.isOpen() && isOurs(session.sessionState().sqlParser());
  }

  /** The session that has the catalog under that name; null if none has. */
  public static Object of(String name, Object catalog) {
    Object[] sessions = BEFORE.keySet().toArray();
    for (int i = 0; i < sessions.length; i++) {
      org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) sessions[i];
      if (session != null && catalogs(session.sessionState()).get(name) == catalog) return session;
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

  /** Called for a new session that has our extensions. */
  public static void made(org.apache.spark.sql.classic.SparkSession session) {
    BEFORE.put(session, new Object[] {APPLICATIONS.get(session.extensions()), null});
  }

  /** Moves our rule in a later session to where `enable` adds it. Spark adds injected rules last, after its own have refused a REPLACE. */
  static synchronized void orderRules(org.apache.spark.sql.classic.SparkSession session) throws Exception {
    SessionState state = session.sessionState();
    Buffer rules = ruleList(state, RULES);
    List indexes = indexesOfOurs(rules);
    if (indexes.isEmpty()) return;
    Object rule = rules.remove(((Integer) indexes.get(0)).intValue());
    rules.insert(indexBefore(rules, CATALOG_RULE), rule);
    put(state.analyzer(), RULES, rules.toSeq());
  }

  /** Undoes `enable` in this session alone. */
  public static synchronized void disable(org.apache.spark.sql.classic.SparkSession session) throws Exception {
    Object[] before = (Object[]) BEFORE.remove(session);
    SessionState state = session.sessionState();
    if (isOurs(state.sqlParser())) putParser(state, ((DeltaParser) Proxy.getInvocationHandler(state.sqlParser())).spark);
    removeRules(state, RULES);
    removeRules(state, FIRST_RULES);
    Buffer normalizing = state.planNormalizationRules().toBuffer();
    if (removeOurs(normalizing)) put(state, NORMALIZATION, normalizing.toSeq());
    removeFunctions(state);
    if (before != null && before[1] != null) put(session, "initialSessionOptions", before[1]);
    if (CATALOG.equals(session.conf().get(CATALOG_KEY, ""))) session.conf().unset(CATALOG_KEY);
    if (before != null && before[0] != null) session.conf().set(CATALOG_KEY, (String) before[0]);
    // Without a value here, that of the application applies.
    else if (CATALOG.equals(session.conf().get(CATALOG_KEY, ""))) session.conf().set(CATALOG_KEY, "builtin");
    catalogs(state).remove("spark_catalog");
  }

  /** Undoes `enable` in the application of the session and in each of its sessions. */
  public static synchronized void disableAll(org.apache.spark.sql.classic.SparkSession session) throws Exception {
    SparkSessionExtensions extensions = session.extensions();
    List buffers = buffers(extensions);
    for (int i = 0; i < buffers.size(); i++) removeOurs((Buffer) buffers.get(i));
    if (CATALOG.equals(session.sparkContext().conf().get(CATALOG_KEY, ""))) session.sparkContext().conf().remove(CATALOG_KEY);
    Object set = APPLICATIONS.remove(extensions);
    if (set != null) session.sparkContext().conf().set(CATALOG_KEY, (String) set);
    CheckTableFormat.unwatch(session);
    Object[] sessions = BEFORE.keySet().toArray();
    for (int i = 0; i < sessions.length; i++) {
      org.apache.spark.sql.classic.SparkSession other = (org.apache.spark.sql.classic.SparkSession) sessions[i];
      if (other != null && other.extensions() == extensions) disable(other);
    }
    disable(session);
  }

  /** Whether later sessions get our extensions. */
  private static boolean hasOurs(SparkSessionExtensions extensions) throws Exception {
    List buffers = buffers(extensions);
    for (int i = 0; i < buffers.size(); i++) if (!indexesOfOurs((Buffer) buffers.get(i)).isEmpty()) return true;
    return false;
  }

  /** The lists of injected extensions of an application. */
  private static List buffers(SparkSessionExtensions extensions) throws Exception {
    List buffers = new ArrayList();
    Field[] fields = SparkSessionExtensions.class.getDeclaredFields();
    for (int i = 0; i < fields.length; i++) {
      if (!Buffer.class.isAssignableFrom(fields[i].getType())) continue;
      fields[i].setAccessible(true);
      buffers.add(fields[i].get(extensions));
    }
    return buffers;
  }

  private static boolean removeOurs(Buffer things) {
    List indexes = indexesOfOurs(things);
    for (int i = indexes.size() - 1; i >= 0; i--) things.remove(((Integer) indexes.get(i)).intValue());
    return !indexes.isEmpty();
  }

  /** The indexes of our extensions in the list; functions are injected with their names. */
  private static List indexesOfOurs(Buffer things) {
    List indexes = new ArrayList();
    for (int i = 0; i < things.size(); i++) {
      Object thing = things.apply(i);
      if (thing instanceof scala.Tuple3) thing = ((scala.Tuple3) thing)._3();
      if (thing.getClass().getName().startsWith("anabranch.")) indexes.add(Integer.valueOf(i));
    }
    return indexes;
  }

  /** Sets the parser of the session, and of its catalog, which parses the texts of views, and in Spark 4.0 of EXECUTE IMMEDIATE. */
  private static void putParser(SessionState state, Object parser) throws Exception {
    put(state, "sqlParser", parser);
    put(state.catalog(), "parser", parser);
  }

  /** Adds our rules before the rule of that class, or last if there is none; first without a name. */
  private static void addRules(SessionState state, String list, Object[] ours, String before) throws Exception {
    Buffer rules = ruleList(state, list);
    if (!indexesOfOurs(rules).isEmpty()) return;
    int index = before == null ? 0 : indexBefore(rules, before);
    for (int i = 0; i < ours.length; i++) rules.insert(index + i, ours[i]);
    put(state.analyzer(), list, rules.toSeq());
  }

  /** The index of the rule of that class; the end if there is none. */
  private static int indexBefore(Buffer rules, String name) {
    int index = 0;
    while (index < rules.length() && !rules.apply(index).getClass().getSimpleName().equals(name)) index++;
    return index;
  }

  private static void removeRules(SessionState state, String list) throws Exception {
    Buffer rules = ruleList(state, list);
    if (removeOurs(rules)) put(state.analyzer(), list, rules.toSeq());
  }

  private static Buffer ruleList(SessionState state, String list) throws Exception {
    return ((scala.collection.immutable.Seq) get(state.analyzer(), list)).toBuffer();
  }

  private static void removeFunctions(SessionState state) throws Exception {
    Object functions = get(state.tableFunctionRegistry(), "functionBuilders");
    Iterator values = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.mutable.Map) functions).values().iterator();
    while (values.hasNext()) if (((scala.Tuple2) values.next())._2() instanceof TableFunction) values.remove();
  }

  private static boolean isOurs(ParserInterface parser) {
    if (!Proxy.isProxyClass(parser.getClass())) return false;
    InvocationHandler handler = Proxy.getInvocationHandler(parser);
    return handler instanceof DeltaParser;
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
