package delta.server;

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
 * Sessions of JDBC as they are opened: what clients bring with a connection is looked at before Hive does, which would set properties
 * of the JVM by it, and who logged in is remembered.
 */
public final class JdbcSessions extends SparkSQLCLIService {
  private static final Map USERS = Collections.synchronizedMap(new WeakHashMap());
  private final SessionManager sessions;
  private final boolean hasLogins;

  private JdbcSessions(HiveServer2 server, org.apache.spark.sql.SparkSession spark, CLIService before, boolean hasLogins)
      throws ReflectiveOperationException {
    super(server, spark);
    for (Class kind = CLIService.class; kind != Object.class; kind = kind.getSuperclass()) {
      Field[] fields = kind.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (Modifier.isStatic(fields[i].getModifiers())) continue;
        fields[i].setAccessible(true);
        fields[i].set(this, fields[i].get(before));
      }
    }
    Field manager = CLIService.class.getDeclaredField("sessionManager");
    manager.setAccessible(true);
    this.sessions = (SessionManager) manager.get(before);
    this.hasLogins = hasLogins;
  }

  /** Every session of the server is opened here from now on. */
  public static void begin(HiveServer2 server, org.apache.spark.sql.SparkSession spark, boolean hasLogins)
      throws ReflectiveOperationException {
    Field answers = ThriftCLIService.class.getDeclaredField("cliService");
    answers.setAccessible(true);
    Collection services = server.getServices();
    for (Iterator each = services.iterator(); each.hasNext();) {
      Service service = (Service) each.next();
      if (service instanceof ThriftCLIService) answers.set(service, new JdbcSessions(server, spark, (CLIService) answers.get(service), hasLogins));
    }
  }

  /** The name of who logged in, or null where nobody was asked for it. */
  public static String userOf(Object session) {
    return (String) USERS.get(session);
  }

  public SessionHandle openSession(TProtocolVersion protocol, String user, String password, String address, Map settings)
      throws HiveSQLException {
    check(settings);
    return remembered(super.openSession(protocol, user, password, address, settings), user);
  }

  public SessionHandle openSessionWithImpersonation(
      TProtocolVersion protocol, String user, String password, String address, Map settings, String token) throws HiveSQLException {
    check(settings);
    return remembered(super.openSessionWithImpersonation(protocol, user, password, address, settings, token), user);
  }

  private SessionHandle remembered(SessionHandle handle, String user) {
    Object session = ((SparkSQLOperationManager) sessions.getOperationManager()).sessionToContexts().get(handle);
    if (hasLogins && session != null && user != null) USERS.put(session, user);
    return handle;
  }

  private static void check(Map settings) throws HiveSQLException {
    if (settings == null) return;
    for (Iterator each = settings.entrySet().iterator(); each.hasNext();) {
      Map.Entry setting = (Map.Entry) each.next();
      try {
        check((String) setting.getKey(), (String) setting.getValue());
      } catch (Exception refused) {
        if (!(refused instanceof DeltaAnalysisError)) Platform.throwException(refused);
        throw new HiveSQLException(refused.getMessage(), ((DeltaAnalysisError) refused).getSqlState(), refused);
      }
    }
  }

  /** Of what a connection brings, `use:` names a schema, and `set:` with a kind of Hive's a setting or a variable. */
  private static void check(String brought, String value) {
    if (brought.startsWith("use:")) return;
    String key = brought.startsWith("set:") ? brought.substring(4) : brought;
    if (key.startsWith("hiveconf:") || key.startsWith("hivevar:")) key = key.substring(key.indexOf(':') + 1);
    if (key.indexOf(':') >= 0) throw OnlyWarehouse.denied(brought);
    if (value != null && value.indexOf("${") >= 0) throw OnlyWarehouse.denied("a variable in the value of " + key);
    if (OnlyWarehouse.holds()) ClientSettings.check(key, value);
  }
}
