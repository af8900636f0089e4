package delta.server;

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
 * Connections of JDBC until they have logged in. Thrift makes room for 100 MB at the word of whoever comes, waits for it without
 * end, and each connection has one of the server's 500 threads.
 */
public final class LoginLimits extends TTransportFactory {
  /** For one more the oldest that says nothing is closed, of the address that has most: whoever logs in speaks at once. */
  private static final int CONNECTIONS_MAX = 200;
  /** Of a message of the handshake. Kerberos' tickets are the largest that clients send, with 64 KB by default. */
  private static final int MESSAGE_BYTES_MAX = 256 * 1024;
  private static final int SILENCE_MS_MAX = 30 * 1000;

  private final TTransportFactory logins;
  /** What goes in the place of a connection, by it. Thrift asks once for reading, which logs in, and once for writing. */
  private final Map known = Collections.synchronizedMap(new WeakHashMap());
  /** Those that have not logged in, oldest first. */
  private final List waiting = new ArrayList();

  private LoginLimits(TTransportFactory logins) {
    this.logins = logins;
  }

  /** From now on connections of the server are limited. */
  public static void begin(HiveServer2 server) throws ReflectiveOperationException {
    for (Iterator each = server.getServices().iterator(); each.hasNext();) {
      Service service = (Service) each.next();
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
    Field found = TServer.class.getDeclaredField(name);
    found.setAccessible(true);
    return found;
  }

  public TTransport getTransport(TTransport connection) throws TTransportException {
    if (!(connection instanceof TSocket)) return logins.getTransport(connection);
    Connection has = (Connection) known.get(connection);
    if (has != null) return logins.getTransport(has);
    Connection comes = new Connection(((TSocket) connection).getSocket());
    known.put(connection, comes);
    for (Connection gone = goneFor(comes); gone != null; gone = goneFor(comes)) close(gone);
    try {
      return loggedIn(comes);
    } catch (RuntimeException failed) {
      if (!(failed.getCause() instanceof TTransportException)) throw failed;
      // Of this kind Thrift writes no stack into the log, which whoever comes could fill. It has one line of a login that was refused.
      throw new TTransportException(TTransportException.END_OF_FILE, failed.getCause().getMessage());
    }
  }

  private TTransport loggedIn(Connection comes) throws TTransportException {
    try {
      comes.setTimeout(SILENCE_MS_MAX);
      TTransport found = logins.getTransport(comes);
      comes.isIn = true;
      comes.setTimeout(0);
      return found;
    } finally {
      left(comes);
    }
  }

  private synchronized void left(Connection gone) {
    waiting.remove(gone);
  }

  /** A connection that has to go before this one comes in, or null where it is in. */
  private synchronized Connection goneFor(Connection comes) {
    String crowded = waiting.size() < CONNECTIONS_MAX ? null : crowded();
    for (int i = 0; crowded != null && i < waiting.size(); i++) {
      Connection oldest = (Connection) waiting.get(i);
      if (oldest.isSilent && oldest.address.equals(crowded)) {
        waiting.remove(i);
        return oldest;
      }
    }
    waiting.add(comes);
    return null;
  }

  /** The address of most of those that say nothing; null where each has said something that the server looks at. */
  private String crowded() {
    Map numbers = new HashMap();
    String found = null;
    int most = 0;
    for (int i = 0; i < waiting.size(); i++) {
      Connection each = (Connection) waiting.get(i);
      if (!each.isSilent) continue;
      int number = numbers.containsKey(each.address) ? ((Integer) numbers.get(each.address)).intValue() + 1 : 1;
      numbers.put(each.address, Integer.valueOf(number));
      if (number > most) {
        most = number;
        found = each.address;
      }
    }
    return found;
  }

  /** Its thread, which waits for what it sends, ends by this. */
  private static void close(Connection gone) {
    try {
      gone.getSocket().close();
    } catch (IOException closed) {
      // By the client.
    }
  }

  /** A client's, with small messages alone until it has logged in. */
  public static final class Connection extends TSocket {
    private static final TConfiguration SMALL = new TConfiguration(MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, TConfiguration.DEFAULT_RECURSION_DEPTH);
    private final String address;
    private volatile boolean isIn;
    /** Whether the server waits for what it sends. */
    private volatile boolean isSilent = true;

    Connection(Socket socket) throws TTransportException {
      super(socket);
      this.address = socket.getInetAddress() == null ? "" : socket.getInetAddress().getHostAddress();
    }

    public int read(byte[] buffer, int from, int number) throws TTransportException {
      if (isIn) return super.read(buffer, from, number);
      isSilent = true;
      int found = super.read(buffer, from, number);
      isSilent = false;
      return found;
    }

    public TConfiguration getConfiguration() {
      return isIn ? super.getConfiguration() : SMALL;
    }
  }
}
