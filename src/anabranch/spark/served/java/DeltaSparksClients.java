package delta.messages;

import delta.Python;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.spark.sql.connect.common.DataTypeProtoConverter;
import org.apache.spark.sql.connect.config.Connect;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.CommandPlugin;
import org.apache.spark.sql.connect.plugin.RelationPlugin;
import org.sparkproject.connect.protobuf.CodedInputStream;

/**
 * Answers clients of delta-spark's classes for Spark Connect: they send messages of delta-spark's own, which Spark passes on
 * to plugins. What is in them is read in Python.
 */
public final class DeltaSparksClients implements RelationPlugin, CommandPlugin {
  private static final String THEIRS = "delta.connect.Delta";
  private static final int HEAD = 100;

  public Optional transform(byte[] relation, SparkConnectPlanner planner) {
    if (!isTheirs(relation)) return Optional.empty();
    return Optional.of(Python.ask("relation of delta-spark", new Object[] {planner.session(), relation, new SparksMessages(planner)}));
  }

  public boolean process(byte[] command, SparkConnectPlanner planner) {
    if (!isTheirs(command)) return false;
    Python.ask("command of delta-spark", new Object[] {planner.session(), command, new SparksMessages(planner)});
    return true;
  }

  /** An `Any` begins with the name of what it holds. */
  private static boolean isTheirs(byte[] any) {
    String head = new String(any, 0, Math.min(any.length, HEAD), StandardCharsets.ISO_8859_1);
    return head.indexOf(THEIRS) >= 0;
  }

  /** Messages of Spark's own within those of delta-spark, as Spark's planner reads them. */
  public static final class SparksMessages {
    private final SparkConnectPlanner planner;

    SparksMessages(SparkConnectPlanner planner) {
      this.planner = planner;
    }

    public Object plan(byte[] relation) throws IOException {
      return planner.transformRelation(org.apache.spark.connect.proto.Relation.parseFrom(nested(relation)));
    }

    public Object expression(byte[] expression) throws IOException {
      return planner.transformExpression(org.apache.spark.connect.proto.Expression.parseFrom(nested(expression)));
    }

    /** As JSON. */
    public String type(byte[] type) throws IOException {
      return DataTypeProtoConverter.toCatalystType(org.apache.spark.connect.proto.DataType.parseFrom(nested(type))).json();
    }

    /** Messages may be nested as deep as in what the server itself receives. */
    private CodedInputStream nested(byte[] message) {
      Object limit = planner.session().sparkContext().conf().get(Connect.CONNECT_GRPC_MARSHALLER_RECURSION_LIMIT());
      CodedInputStream stream = CodedInputStream.newInstance(message);
      stream.setRecursionLimit(((Number) limit).intValue());
      return stream;
    }
  }
}
