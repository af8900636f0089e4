package delta;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.Collections;
import java.util.concurrent.locks.Lock;
import java.util.function.BiFunction;
import org.apache.spark.unsafe.Platform;

/**
 * The one door to Python: a question and its facts. An answer that is a Throwable is thrown.
 *
 * A thread that Python's calls run on has a connection, and the question goes back on it. Other threads of the JVM
 * (streams, servers) get one for the question, closed after it: Py4J would keep a thread and a socket for each.
 */
public final class Python {
  private static final int FACTS_MAX = 8;
  public static volatile scala.Function10 door;
  private static volatile py4j.PythonClient client;

  private Python() {}

  /**
   * Names the one who answers, and the token without which nobody is to be answered. PySpark gives the JVM's calls none: every
   * program of the machine could ask.
   */
  public static void open(scala.Function10 answers, String token) throws Exception {
    Field field = py4j.CallbackClient.class.getDeclaredField("authToken");
    field.setAccessible(true);
    field.set(clientOf(answers), token);
    door = answers;
    CheckLogs.begin();
  }

  /** Calls an object of Python's. */
  public static Object call(BiFunction object, Object first, Object second) {
    py4j.PythonClient calls = clientOf(object);
    boolean connected = calls.getPerThreadConnection() != null;
    try {
      return object.apply(first, second);
    } finally {
      if (!connected) disconnect(calls);
    }
  }

  private static py4j.PythonClient clientOf(Object object) {
    py4j.PythonClient known = client;
    if (known != null) return known;
    try {
      Object handler = Proxy.getInvocationHandler(object);
      Field gateway = handler.getClass().getDeclaredField("gateway");
      gateway.setAccessible(true);
      known = (py4j.PythonClient) ((py4j.Gateway) gateway.get(handler)).getCallbackClient();
      client = known;
      return known;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  public static void close() {
    door = null;
    CheckLogs.end();
  }

  public static boolean isOpen() {
    return door != null;
  }

  public static Object ask(String question, Object[] facts) {
    scala.Function10 answers = door;
    if (answers == null) throw DeltaError.disabled();
    Object[] given = java.util.Arrays.copyOf(facts, FACTS_MAX);
    py4j.PythonClient calls = clientOf(answers);
    boolean connected = calls.getPerThreadConnection() != null;
    String description = JobDescriptions.current();
    Object answer;
    try {
      // As arguments of their own: Python would ask for each item of an array, and each time for its length.
      answer = answers.apply(question, Integer.valueOf(facts.length), given[0], given[1], given[2], given[3], given[4], given[5],
          given[6], given[7]);
    } finally {
      JobDescriptions.restore(description);
      if (!connected) disconnect(calls);
    }
    if (answer instanceof Throwable) Platform.throwException(DeltaError.passing((Throwable) answer));
    return answer;
  }

  /** Py4J keeps connections that the JVM opened, with their buffers: once for the question, and for each asked within it. */
  private static void forget(py4j.PythonClient calls, Object connection) {
    try {
      Lock lock = (Lock) kept("lock").get(calls);
      lock.lock();
      try {
        ((Collection) kept("connections").get(calls)).removeAll(Collections.singleton(connection));
      } finally {
        lock.unlock();
      }
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private static Field kept(String name) throws ReflectiveOperationException {
    Field field = py4j.CallbackClient.class.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private static void disconnect(py4j.PythonClient calls) {
    py4j.ClientServerConnection connection = calls.getPerThreadConnection();
    if (connection == null) return;
    calls.setPerThreadConnection(null);
    connection.shutdown();
    forget(calls, connection);
  }
}
