package delta.server;

import delta.Python;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.CommandPlugin;
import org.apache.spark.sql.connect.plugin.RelationPlugin;

/**
 * Answers clients of delta-spark's classes for Spark Connect: they send messages of delta-spark's own, which Spark passes on
 * to plugins. What is in them is read in Python.
 */
public final class DeltaSparksClients implements RelationPlugin, CommandPlugin {
  private static final String THEIRS = "delta.connect.Delta";
  private static final int HEAD = 100;

  public Optional transform(byte[] relation, SparkConnectPlanner planner) {
    if (!isTheirs(relation)) return Optional.empty();
    return Optional.of(Python.ask("relation of delta-spark", new Object[] {planner.session(), relation}));
  }

  public boolean process(byte[] command, SparkConnectPlanner planner) {
    if (!isTheirs(command)) return false;
    Python.ask("command of delta-spark", new Object[] {planner.session(), command});
    return true;
  }

  /** An `Any` begins with the name of what it holds. */
  private static boolean isTheirs(byte[] any) {
    String head = new String(any, 0, Math.min(any.length, HEAD), StandardCharsets.ISO_8859_1);
    return head.indexOf(THEIRS) >= 0;
  }
}
