package anabranch;

import delta.DeltaAnalysisError;
import delta.DeltaError;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.Collections;
import java.util.concurrent.locks.Lock;
import java.util.function.BiFunction;
import org.apache.spark.unsafe.Platform;

/**
 * The way of all callbacks to Python: see PythonCallbacks for their names. A result that is a Throwable is thrown.
 *
 * A thread that runs a call of Python's has a connection, on which the callback is sent. Other threads of the JVM
 * (streams, servers) get a connection for the callback, closed after it: Py4J would keep a thread and a socket for each.
 */
public final class PythonEndpoint {
  private static final int ARGUMENTS_MAX = 8;
  private static volatile scala.Function10 endpoint;
  private static volatile py4j.PythonClient client;

  private PythonEndpoint() {}

  /**
   * Sets the object of Python's that receives callbacks, and the token that callers need. PySpark sets none for calls of the JVM, so that any
   * program on the machine could call Python.
   */
  public static void open(scala.Function10 receiver, String token) throws Exception {
    Field field = py4j.CallbackClient.class.getDeclaredField("authToken");
    field.setAccessible(true);
    field.set(clientOf(receiver), token);
    endpoint = receiver;
    CheckFailureLogFilter.begin();
  }

  /** Calls a function of Python's that is no callback: it has a proxy of its own. */
  public static Object apply(BiFunction function, Object first, Object second) {
    py4j.PythonClient calls = clientOf(function);
    boolean connected = calls.getPerThreadConnection() != null;
    try {
      return function.apply(first, second);
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
    CheckFailureLogFilter.end();
  }

  public static boolean isOpen() {
    return endpoint != null;
  }

  /** The result of a callback. `name` is that of a handler and of its function, as in `TableHandler.table_by_path`. */
  static Object call(String name, Object... arguments) {
    return returned(result(name, arguments));
  }

  /** The same for a callback of a Java proxy, which would wrap an AnalysisException: its interface does not declare that one. */
  static Object callFromProxy(String name, Object... arguments) {
    Object result = result(name, arguments);
    return returned(result instanceof DeltaAnalysisError ? ((DeltaAnalysisError) result).unchecked() : result);
  }

  private static Object returned(Object result) {
    if (result instanceof Throwable) Platform.throwException(DeltaError.passing((Throwable) result));
    return result;
  }

  private static Object result(String name, Object[] arguments) {
    scala.Function10 receiver = endpoint;
    if (receiver == null) throw DeltaError.disabled();
    Object[] all = java.util.Arrays.copyOf(arguments, ARGUMENTS_MAX);
    py4j.PythonClient calls = clientOf(receiver);
    boolean connected = calls.getPerThreadConnection() != null;
    String[] description = JobDescriptions.current();
    try {
      // Separate arguments: for an array Python would call the JVM for each item, and for its length each time.
      return receiver.apply(name, Integer.valueOf(arguments.length), all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]);
    } finally {
      JobDescriptions.restore(description);
      if (!connected) disconnect(calls);
    }
  }

  /** Py4J keeps connections that the JVM opened, with their buffers: one for the callback, and one for each callback inside it. */
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
