package delta.server;

import delta.DeltaError;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.CommandPlugin;
import org.apache.spark.sql.connect.plugin.RelationPlugin;

/**
 * Tells clients of delta-spark's classes for Spark Connect what to use: they send messages of delta-spark's own, which Spark passes on
 * to plugins, and would otherwise call extensions without a handler.
 */
public final class DeltaSparksClients implements RelationPlugin, CommandPlugin {
  private static final String THEIRS = "/io.delta.connect.";
  private static final int HEAD = 100;

  public Optional transform(byte[] relation, SparkConnectPlanner planner) {
    check(relation);
    return Optional.empty();
  }

  public boolean process(byte[] command, SparkConnectPlanner planner) {
    check(command);
    return false;
  }

  /** An `Any` begins with the name of what it holds. */
  private static void check(byte[] any) {
    String head = new String(any, 0, Math.min(any.length, HEAD), StandardCharsets.ISO_8859_1);
    if (head.indexOf(THEIRS) < 0) return;
    String message = "This server does not answer delta-spark's DeltaTable over Spark Connect (delta.connect). "
        + "Use SQL, which needs nothing in the client, or DeltaTable of anabranch.tables.";
    throw new DeltaError("ANABRANCH_DELTA_CONNECT_UNSUPPORTED", "0A000", message, 0);
  }
}
