package anabranch.messages;

import anabranch.PythonCallbacks;
import java.util.Optional;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.CommandPlugin;
import org.apache.spark.sql.connect.plugin.RelationPlugin;
import org.sparkproject.connect.protobuf.Any;
import org.sparkproject.connect.protobuf.InvalidProtocolBufferException;

/**
 * Receives clients' messages about tables, which Spark passes on to plugins. They are parsed here, since Python may lack
 * protobuf: it gets the fields of a message as JSON, and Spark's own messages in it by their positions.
 */
public final class MessagePlugin implements RelationPlugin, CommandPlugin {
  public Optional transform(byte[] relation, SparkConnectPlanner planner) {
    Object plan = handle("DeltaRelation", relation, planner);
    return plan == null ? Optional.empty() : Optional.of(plan);
  }

  public boolean process(byte[] command, SparkConnectPlanner planner) {
    return handle("DeltaCommand", command, planner) != null;
  }

  /** Null where the message is none of these. */
  private static Object handle(String family, byte[] extension, SparkConnectPlanner planner) {
    MessageReader reader = new MessageReader(planner);
    String fields;
    try {
      Any any = Any.parseFrom(extension);
      if (!MessageTypes.isAboutTables(any)) return null;
      fields = reader.read(family, any);
    } catch (InvalidProtocolBufferException error) {
      PythonCallbacks.refuseMessage(family, String.valueOf(error.getMessage()));
      return null;
    }
    Object plan = PythonCallbacks.executeMessage(planner.session(), family, fields, reader);
    return plan == null ? Boolean.TRUE : plan;
  }
}
