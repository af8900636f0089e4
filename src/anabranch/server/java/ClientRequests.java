package delta.server;

import delta.DeltaAnalysisError;
import delta.messages.MessageTypes;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.unsafe.Platform;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;
import org.sparkproject.connect.protobuf.Any;
import org.sparkproject.connect.protobuf.Descriptors;
import org.sparkproject.connect.protobuf.InvalidProtocolBufferException;
import org.sparkproject.connect.protobuf.Message;

/**
 * Looks at what clients of Spark Connect ask before Spark does, where they are kept to the warehouse: functions in Python, Scala and
 * Java would run on the driver before any plan is there to be checked, and some sinks make their folder.
 */
public final class ClientRequests implements ServerInterceptor {
  private static final Set REFUSED = new HashSet(Arrays.asList(new String[] {
      "PythonUDF", "ScalarScalaUDF", "JavaUDF", "TypedAggregateExpression", "CommonInlineUserDefinedFunction",
      "CommonInlineUserDefinedTableFunction", "CommonInlineUserDefinedDataSource", "PythonUDTF", "PythonDataSource",
      "StreamingForeachFunction", "StreamingQueryListenerBusCommand", "StreamingQueryManagerCommand.StreamingQueryListenerCommand",
      "Plan.CompressedOperation", "PipelineCommand", "MlCommand", "MlRelation", "ExecuteExternalCommand"}));
  private static final String PACKAGE = "spark.connect.";
  /** Rows that a client sends ahead of a plan, by their hash: the only artifacts that are no code and no file of a client's. */
  private static final Pattern ROWS = Pattern.compile("cache/[0-9a-f]{64}");
  /** Elements of messages about tables that are a path; what is a name or a path is looked at when the table is opened. */
  private static final Set PATHS = new HashSet(Arrays.asList(new String[] {"path", "location"}));
  /** Elements of Spark's messages that name a format. */
  private static final Set FORMATS = new HashSet(Arrays.asList(new String[] {"format", "source", "provider"}));
  private static final Set OPTIONS = new HashSet(Arrays.asList(new String[] {"options", "hadoop_conf"}));
  /** A target, a source and what is below them; a client that nests more has the server read the same bytes again and again. */
  private static final int EXTENSIONS_MAX = 16;

  public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
    ServerCall.Listener listener = next.startCall(call, headers);
    return OnlyWarehouse.holds() ? new Looking(call, listener) : listener;
  }

  /** Passes on what may be passed on. */
  public static final class Looking extends ServerCall.Listener {
    private final ServerCall call;
    private final ServerCall.Listener next;
    private boolean over;

    Looking(ServerCall call, ServerCall.Listener next) {
      this.call = call;
      this.next = next;
    }

    public void onMessage(Object message) {
      if (over) return;
      try {
        if (message instanceof Message) look((Message) message, 0);
      } catch (Exception refused) {
        if (!(refused instanceof DeltaAnalysisError)) Platform.throwException(refused);
        over = true;
        call.close(Status.PERMISSION_DENIED.withDescription(refused.getMessage()), new Metadata());
        return;
      }
      next.onMessage(message);
    }

    public void onHalfClose() {
      if (!over) next.onHalfClose();
    }

    public void onCancel() {
      next.onCancel();
    }

    public void onComplete() {
      if (over) next.onCancel();
      else next.onComplete();
    }

    public void onReady() {
      if (!over) next.onReady();
    }
  }

  /** `extensions` is how many extensions of Spark Connect the message is within. */
  private static void look(Message message, int extensions) {
    String kind = message.getDescriptorForType().getFullName();
    if (kind.equals("google.protobuf.Any")) {
      look(contentOf(message, extensions), extensions + 1);
      return;
    }
    boolean isOurs = kind.startsWith(MessageTypes.PACKAGE);
    if (!kind.startsWith(PACKAGE) && !isOurs) return;
    String name = isOurs ? kind : kind.substring(PACKAGE.length());
    if (REFUSED.contains(name)) throw OnlyWarehouse.refused(name);
    boolean isArtifact = name.startsWith("AddArtifactsRequest.");
    boolean isSetting = name.equals("ConfigRequest.Set");
    if (name.equals("ConfigRequest.Unset")) lookAtUnset((List) message.getField(message.getDescriptorForType().findFieldByName("keys")));
    for (Iterator each = message.getAllFields().entrySet().iterator(); each.hasNext();) {
      Map.Entry field = (Map.Entry) each.next();
      Descriptors.FieldDescriptor facts = (Descriptors.FieldDescriptor) field.getKey();
      Object value = field.getValue();
      if (isArtifact && facts.getName().equals("name") && !ROWS.matcher((String) value).matches())
        throw OnlyWarehouse.refused("the artifact " + value);
      boolean isPath = isOurs ? PATHS.contains(facts.getName()) : facts.getName().equals("path");
      if (isPath && value instanceof String) OnlyWarehouse.check((String) value);
      if (!isOurs && FORMATS.contains(facts.getName()) && value instanceof String) FormatOptions.checkFormat((String) value);
      if (!(value instanceof List)) {
        if (value instanceof Message) look((Message) value, extensions);
        continue;
      }
      for (Iterator part = ((List) value).iterator(); part.hasNext();) {
        Object one = part.next();
        if (!(one instanceof Message)) continue;
        if (isSetting) lookAtSetting((Message) one);
        else if (facts.isMapField()) lookAtEntry(facts.getName(), (Message) one, extensions);
        else look((Message) one, extensions);
      }
    }
  }

  /** Messages about tables are all that may be in an `Any`. */
  private static Message contentOf(Message any, int extensions) {
    if (extensions >= EXTENSIONS_MAX) throw OnlyWarehouse.refused("extensions of Spark Connect within each other");
    try {
      return MessageTypes.parse(Any.parseFrom(any.toByteString()));
    } catch (InvalidProtocolBufferException error) {
      throw OnlyWarehouse.refused("an extension of Spark Connect");
    }
  }

  private static void lookAtSetting(Message pair) {
    Object key = pair.getField(pair.getDescriptorForType().findFieldByName("key"));
    ClientSettings.check((String) key, (String) pair.getField(pair.getDescriptorForType().findFieldByName("value")));
  }

  private static void lookAtUnset(List keys) {
    for (Iterator each = keys.iterator(); each.hasNext();) ClientSettings.check((String) each.next(), null);
  }

  private static void lookAtEntry(String field, Message entry, int extensions) {
    Object key = entry.getField(entry.getDescriptorForType().findFieldByName("key"));
    Object value = entry.getField(entry.getDescriptorForType().findFieldByName("value"));
    if (value instanceof Message) look((Message) value, extensions);
    else if (field.equals("properties") && value instanceof String) FormatOptions.checkProperty((String) key, (String) value);
    else if (OPTIONS.contains(field) && value instanceof String) FormatOptions.check((String) key, (String) value);
  }
}
