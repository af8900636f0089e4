package anabranch;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.URL;
import java.util.Enumeration;

/**
 * The driver's class loader under another name, and without a parent.
 *
 * When a session of Hive's protocol ends, Hive closes the class loaders from the session's up to its own. The driver's, with
 * the user's jars and our classes, is between them; a closed loader finds no class that it has not loaded before.
 */
public final class JarsLoader extends ClassLoader {
  private static final String FIELD = "jarClassLoader";
  private final ClassLoader drivers;

  private JarsLoader(ClassLoader drivers) {
    super(null);
    this.drivers = drivers;
  }

  /** Makes the end of a session of Hive's protocol harmless to other sessions. A second call changes nothing. */
  public static synchronized void keepOpen(org.apache.spark.sql.classic.SparkSession session) throws Exception {
    Object shared = session.sharedState();
    Field field = shared.getClass().getDeclaredField(FIELD);
    field.setAccessible(true);
    java.net.URLClassLoader before = (java.net.URLClassLoader) field.get(shared);
    if (before.getParent() instanceof JarsLoader) return;
    Object[] arguments = new Object[] {new JarsLoader(before.getParent())};
    org.apache.spark.util.MutableURLClassLoader after =
        (org.apache.spark.util.MutableURLClassLoader)
            before.getClass().getConstructor(new Class[] {ClassLoader.class}).newInstance(arguments);
    // The jars of ADD JAR.
    URL[] jars = before.getURLs();
    for (int i = 0; i < jars.length; i++) after.addURL(jars[i]);
    field.set(shared, after);
  }

  /** Sets our loader on a thread that opens a session of Hive's protocol: Hive's loader has neither the user's jars nor our classes. */
  public static void leaveHives() {
    Thread thread = Thread.currentThread();
    ClassLoader has = thread.getContextClassLoader();
    if (has == null || !has.getClass().getName().startsWith("org.apache.hadoop.hive.")) return;
    thread.setContextClassLoader(JarsLoader.class.getClassLoader());
  }

  protected Class loadClass(String name, boolean resolve) throws ClassNotFoundException {
    return drivers.loadClass(name);
  }

  public URL getResource(String name) {
    return drivers.getResource(name);
  }

  public Enumeration getResources(String name) throws IOException {
    return drivers.getResources(name);
  }
}
