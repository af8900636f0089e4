package delta;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.Collections;
import java.util.concurrent.locks.Lock;
import java.util.function.BiFunction;
import org.apache.spark.unsafe.Platform;

/**
 * All calls to Python go through here: a question and its facts. An answer that is a Throwable is thrown.
 *
 * A thread that runs a call of Python's has a connection, on which the question is sent back. Other threads of the JVM
 * (streams, servers) get a connection for the question, closed after it: Py4J would keep a thread and a socket for each.
 */
public final class Python {
  private static final int FACTS_MAX = 8;
  public static volatile scala.Function10 endpoint;
  private static volatile py4j.PythonClient client;

  private Python() {}

  /**
   * Sets the object of Python's that answers, and the token that callers need. PySpark sets none for calls of the JVM, so that any
   * program on the machine could call Python.
   */
  public static void open(scala.Function10 answers, String token) throws Exception {
    Field field = py4j.CallbackClient.class.getDeclaredField("authToken");
    field.setAccessible(true);
    field.set(clientOf(answers), token);
    endpoint = answers;
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
    py4j.PythonClient cached = client;
    if (cached != null) return cached;
    try {
      Object handler = Proxy.getInvocationHandler(object);
      Field gateway = handler.getClass().getDeclaredField("gateway");
      gateway.setAccessible(true);
      cached = (py4j.PythonClient) ((py4j.Gateway) gateway.get(handler)).getCallbackClient();
      client = cached;
      return cached;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  public static void close() {
    endpoint = null;
    CheckLogs.end();
  }

  public static boolean isOpen() {
    return endpoint != null;
  }

  public static Object ask(String question, Object[] facts) {
    scala.Function10 answers = endpoint;
    if (answers == null) throw DeltaError.disabled();
    Object[] arguments = java.util.Arrays.copyOf(facts, FACTS_MAX);
    py4j.PythonClient calls = clientOf(answers);
    boolean connected = calls.getPerThreadConnection() != null;
    String description = JobDescriptions.current();
    Object answer;
    try {
      // Separate arguments: for an array Python would call the JVM for each item, and for its length each time.
      answer = answers.apply(question, Integer.valueOf(facts.length), arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5],
          arguments[6], arguments[7]);
    } finally {
      JobDescriptions.restore(description);
      if (!connected) disconnect(calls);
    }
    if (answer instanceof Throwable) Platform.throwException(DeltaError.passing((Throwable) answer));
    return answer;
  }

  /** Py4J keeps connections that the JVM opened, with their buffers: one for the question, and one for each nested question. */
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
