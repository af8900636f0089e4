package anabranch.server;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.hive.service.Service;
import org.apache.hive.service.cli.thrift.ThriftBinaryCLIService;
import org.apache.hive.service.server.HiveServer2;
import org.apache.thrift.TConfiguration;
import org.apache.thrift.server.TServer;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;
import org.apache.thrift.transport.TTransportFactory;

/**
 * Limits connections of JDBC until they have logged in. Without it Thrift allocates up to 100 MB for a message that a client
 * announces and waits for it without a timeout, and each connection occupies one of the server's 500 threads.
 */
public final class LoginLimits extends TTransportFactory {
  /**
   * Connections that have not logged in. For one more, the oldest silent one is closed, of the address that has most of them: a client
   * that logs in sends its first message at once.
   */
  private static final int CONNECTIONS_MAX = 200;
  /** The size of a message of the handshake. Kerberos' tickets are the largest that clients send, with 64 KB by default. */
  private static final int MESSAGE_BYTES_MAX = 256 * 1024;
  private static final int SILENCE_MS_MAX = 30 * 1000;

  private final TTransportFactory logins;
  /** The limited connection of each client's connection. Thrift gets it twice: for reading, which logs in, and for writing. */
  private final Map limited = Collections.synchronizedMap(new WeakHashMap());
  /** Connections that have not logged in, oldest first. */
  private final List waiting = new ArrayList();

  private LoginLimits(TTransportFactory logins) {
    this.logins = logins;
  }

  /** Limits the server's connections from now on. */
  public static void begin(HiveServer2 server) throws ReflectiveOperationException {
    for (Iterator services = server.getServices().iterator(); services.hasNext();) {
      Service service = (Service) services.next();
      if (!(service instanceof ThriftBinaryCLIService)) continue;
      Field field = ThriftBinaryCLIService.class.getDeclaredField("server");
      field.setAccessible(true);
      Object thrift = field.get(service);
      Field reading = factory("inputTransportFactory_");
      LoginLimits limits = new LoginLimits((TTransportFactory) reading.get(thrift));
      reading.set(thrift, limits);
      factory("outputTransportFactory_").set(thrift, limits);
    }
  }

  private static Field factory(String name) throws ReflectiveOperationException {
    Field field = TServer.class.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  public TTransport getTransport(TTransport connection) throws TTransportException {
    if (!(connection instanceof TSocket)) return logins.getTransport(connection);
    Connection existing = (Connection) limited.get(connection);
    if (existing != null) return logins.getTransport(existing);
    Connection created = new Connection(((TSocket) connection).getSocket());
    limited.put(connection, created);
    for (Connection evicted = evictedFor(created); evicted != null; evicted = evictedFor(created)) close(evicted);
    try {
      return loggedIn(created);
    } catch (RuntimeException failed) {
      if (!(failed.getCause() instanceof TTransportException)) throw failed;
      // Thrift logs no stack trace for this exception, so clients cannot fill the log. A refused login has one line in it.
      throw new TTransportException(TTransportException.END_OF_FILE, failed.getCause().getMessage());
    }
  }

  private TTransport loggedIn(Connection connection) throws TTransportException {
    try {
      connection.setTimeout(SILENCE_MS_MAX);
      TTransport transport = logins.getTransport(connection);
      connection.isLoggedIn = true;
      connection.setTimeout(0);
      return transport;
    } finally {
      removeWaiting(connection);
    }
  }

  private synchronized void removeWaiting(Connection connection) {
    waiting.remove(connection);
  }

  /** A connection to close before this one can wait for its login, or null after it was added to those that wait. */
  private synchronized Connection evictedFor(Connection created) {
    String address = waiting.size() < CONNECTIONS_MAX ? null : addressWithMostSilent();
    for (int i = 0; address != null && i < waiting.size(); i++) {
      Connection oldest = (Connection) waiting.get(i);
      if (oldest.isSilent && oldest.address.equals(address)) {
        waiting.remove(i);
        return oldest;
      }
    }
    waiting.add(created);
    return null;
  }

  /** The address with most silent connections; null if the server is processing a message of every connection. */
  private String addressWithMostSilent() {
    Map counts = new HashMap();
    String address = null;
    int most = 0;
    for (int i = 0; i < waiting.size(); i++) {
      Connection connection = (Connection) waiting.get(i);
      if (!connection.isSilent) continue;
      int count = counts.containsKey(connection.address) ? ((Integer) counts.get(connection.address)).intValue() + 1 : 1;
      counts.put(connection.address, Integer.valueOf(count));
      if (count > most) {
        most = count;
        address = connection.address;
      }
    }
    return address;
  }

  /** Closes the connection, which ends the thread that waits for its messages. */
  private static void close(Connection connection) {
    try {
      connection.getSocket().close();
    } catch (IOException closed) {
      // The client has closed it.
    }
  }

  /** A client's connection, which accepts only small messages until the login. */
  public static final class Connection extends TSocket {
    private static final TConfiguration SMALL = new TConfiguration(MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, TConfiguration.DEFAULT_RECURSION_DEPTH);
    private final String address;
    private volatile boolean isLoggedIn;
    /** Whether the server waits for the client's next bytes. */
    private volatile boolean isSilent = true;

    Connection(Socket socket) throws TTransportException {
      super(socket);
      this.address = socket.getInetAddress() == null ? "" : socket.getInetAddress().getHostAddress();
    }

    public int read(byte[] buffer, int from, int number) throws TTransportException {
      if (isLoggedIn) return super.read(buffer, from, number);
      isSilent = true;
      int count = super.read(buffer, from, number);
      isSilent = false;
      return count;
    }

    public TConfiguration getConfiguration() {
      return isLoggedIn ? super.getConfiguration() : SMALL;
    }
  }
}
