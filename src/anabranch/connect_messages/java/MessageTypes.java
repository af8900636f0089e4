package anabranch.messages;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.connect.proto.DataType;
import org.apache.spark.connect.proto.Expression;
import org.apache.spark.connect.proto.Relation;
import org.apache.spark.sql.connect.config.Connect;
import org.sparkproject.connect.protobuf.Any;
import org.sparkproject.connect.protobuf.ByteString;
import org.sparkproject.connect.protobuf.CodedInputStream;
import org.sparkproject.connect.protobuf.DescriptorProtos;
import org.sparkproject.connect.protobuf.Descriptors;
import org.sparkproject.connect.protobuf.DynamicMessage;
import org.sparkproject.connect.protobuf.InvalidProtocolBufferException;
import org.sparkproject.connect.protobuf.Message;

/** The messages of `delta_connect.proto`. */
public final class MessageTypes {
  /** The package of the messages in the file. */
  public static final String PACKAGE = "anabranch.connect.";
  private static final String PUBLISHED = "delta.connect.";
  private static final Set FAMILIES = new HashSet(Arrays.asList(new String[] {"DeltaRelation", "DeltaCommand"}));
  /** Levels of our messages above Spark's. */
  private static final int LEVELS = 8;
  private static volatile Descriptors.FileDescriptor file;
  /** How deep Spark's messages may be nested: as deep as in what the server itself receives. */
  private static volatile int depth;

  private MessageTypes() {}

  /** Takes the set of descriptors that was compiled from that file. Spark's own messages in it are those of this Spark. */
  public static void describe(byte[] descriptors, SparkConf settings)
      throws InvalidProtocolBufferException, Descriptors.DescriptorValidationException {
    depth = ((Number) settings.get(Connect.CONNECT_GRPC_MARSHALLER_RECURSION_LIMIT())).intValue();
    DescriptorProtos.FileDescriptorProto ours = DescriptorProtos.FileDescriptorSet.parseFrom(descriptors).getFile(0);
    Descriptors.FileDescriptor[] sparks = new Descriptors.FileDescriptor[] {Expression.getDescriptor().getFile(),
        Relation.getDescriptor().getFile(), DataType.getDescriptor().getFile()};
    file = Descriptors.FileDescriptor.buildFrom(ours, sparks);
  }

  public static boolean isAboutTables(Any any) {
    // The name may be of another package of delta-spark: then the message is refused by name.
    return published(any).indexOf(PUBLISHED) >= 0;
  }

  /** The relation or the command in `any`. */
  public static Message parse(Any any) throws InvalidProtocolBufferException {
    String published = published(any);
    String name = published.startsWith(PUBLISHED) ? published.substring(PUBLISHED.length()) : any.getTypeUrl();
    if (!FAMILIES.contains(name)) throw new InvalidProtocolBufferException("it is a " + name);
    try {
      return DynamicMessage.parseFrom(file.findMessageTypeByName(name), limited(any.getValue(), depth + LEVELS));
    } catch (InvalidProtocolBufferException error) {
      throw error;
    } catch (java.io.IOException error) {
      throw new InvalidProtocolBufferException(error);
    }
  }

  /** The bytes of one of Spark's messages. */
  static CodedInputStream limited(ByteString bytes) {
    return limited(bytes, depth);
  }

  private static CodedInputStream limited(ByteString bytes, int limit) {
    CodedInputStream stream = bytes.newCodedInput();
    stream.setRecursionLimit(limit);
    return stream;
  }

  private static String published(Any any) {
    String url = any.getTypeUrl();
    return url.substring(url.lastIndexOf('/') + 1);
  }
}
