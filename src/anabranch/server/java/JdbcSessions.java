package anabranch.server;

import delta.DeltaAnalysisError;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.hive.service.Service;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.hive.service.cli.thrift.ThriftCLIService;
import org.apache.hive.service.rpc.thrift.TProtocolVersion;
import org.apache.hive.service.server.HiveServer2;
import org.apache.spark.sql.hive.thriftserver.SparkSQLCLIService;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;
import org.apache.spark.unsafe.Platform;

/**
 * Opens the sessions of JDBC. Checks the settings that a client sends with its connection, before Hive applies them, which could set
 * properties of the JVM; and records which user logged in.
 */
public final class JdbcSessions extends SparkSQLCLIService {
  private static final Map USERS = Collections.synchronizedMap(new WeakHashMap());
  private final SessionManager sessions;
  private final boolean hasLogins;

  private JdbcSessions(HiveServer2 server, org.apache.spark.sql.SparkSession spark, CLIService original, boolean hasLogins)
      throws ReflectiveOperationException {
    super(server, spark);
    for (Class kind = CLIService.class; kind != Object.class; kind = kind.getSuperclass()) {
      Field[] fields = kind.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (Modifier.isStatic(fields[i].getModifiers())) continue;
        fields[i].setAccessible(true);
        fields[i].set(this, fields[i].get(original));
      }
    }
    Field manager = CLIService.class.getDeclaredField("sessionManager");
    manager.setAccessible(true);
    this.sessions = (SessionManager) manager.get(original);
    this.hasLogins = hasLogins;
  }

  /** From now on every session of the server is opened by this class. */
  public static void begin(HiveServer2 server, org.apache.spark.sql.SparkSession spark, boolean hasLogins)
      throws ReflectiveOperationException {
    Field cliService = ThriftCLIService.class.getDeclaredField("cliService");
    cliService.setAccessible(true);
    Collection services = server.getServices();
    for (Iterator remaining = services.iterator(); remaining.hasNext();) {
      Service service = (Service) remaining.next();
      if (service instanceof ThriftCLIService)
        cliService.set(service, new JdbcSessions(server, spark, (CLIService) cliService.get(service), hasLogins));
    }
  }

  /** The name of the user who logged in, or null for a session without a login. */
  public static String userOf(Object session) {
    return (String) USERS.get(session);
  }

  public SessionHandle openSession(TProtocolVersion protocol, String user, String password, String address, Map settings)
      throws HiveSQLException {
    check(settings);
    return recorded(super.openSession(protocol, user, password, address, settings), user);
  }

  public SessionHandle openSessionWithImpersonation(
      TProtocolVersion protocol, String user, String password, String address, Map settings, String token) throws HiveSQLException {
    check(settings);
    return recorded(super.openSessionWithImpersonation(protocol, user, password, address, settings, token), user);
  }

  private SessionHandle recorded(SessionHandle handle, String user) {
    Object session = ((SparkSQLOperationManager) sessions.getOperationManager()).sessionToContexts().get(handle);
    if (hasLogins && session != null && user != null) USERS.put(session, user);
    return handle;
  }

  private static void check(Map settings) throws HiveSQLException {
    if (settings == null) return;
    for (Iterator entries = settings.entrySet().iterator(); entries.hasNext();) {
      Map.Entry setting = (Map.Entry) entries.next();
      try {
        check((String) setting.getKey(), (String) setting.getValue());
      } catch (Exception refused) {
        if (!(refused instanceof DeltaAnalysisError)) Platform.throwException(refused);
        throw new HiveSQLException(refused.getMessage(), ((DeltaAnalysisError) refused).getSqlState(), refused);
      }
    }
  }

  /** Checks one entry of a connection: `use:` names a schema; `set:`, followed by a namespace of Hive, a setting or a variable. */
  private static void check(String name, String value) {
    if (name.startsWith("use:")) return;
    String key = name.startsWith("set:") ? name.substring(4) : name;
    if (key.startsWith("hiveconf:") || key.startsWith("hivevar:")) key = key.substring(key.indexOf(':') + 1);
    if (key.indexOf(':') >= 0) throw WarehouseGuard.denied(name);
    if (value != null && value.indexOf("${") >= 0) throw WarehouseGuard.denied("a variable in the value of " + key);
    if (WarehouseGuard.isActive()) ClientSettings.check(key, value);
  }
}
