package anabranch.server;

import anabranch.messages.MessageTypes;
import delta.DeltaAnalysisError;
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
 * Checks the requests of Spark Connect's clients before Spark executes them, while clients are restricted to the warehouse. Plans are
 * checked too late for some of them: functions in Python, Scala and Java run on the driver, and some sinks create their folder, before
 * there is a plan.
 */
public final class ClientRequests implements ServerInterceptor {
  private static final Set REFUSED = new HashSet(Arrays.asList(new String[] {
      "PythonUDF", "ScalarScalaUDF", "JavaUDF", "TypedAggregateExpression", "CommonInlineUserDefinedFunction",
      "CommonInlineUserDefinedTableFunction", "CommonInlineUserDefinedDataSource", "PythonUDTF", "PythonDataSource",
      "StreamingForeachFunction", "StreamingQueryListenerBusCommand", "StreamingQueryManagerCommand.StreamingQueryListenerCommand",
      "Plan.CompressedOperation", "PipelineCommand", "MlCommand", "MlRelation", "ExecuteExternalCommand"}));
  private static final String PACKAGE = "spark.connect.";
  /** The names of rows that a client sends ahead of a plan, by their hash. All other artifacts are code or a client's files. */
  private static final Pattern ROWS = Pattern.compile("cache/[0-9a-f]{64}");
  /** Fields of messages about tables that hold a path. Fields that hold a name or a path are checked when the table is opened. */
  private static final Set PATHS = new HashSet(Arrays.asList(new String[] {"path", "location"}));
  /** Fields of Spark's messages that name a format. */
  private static final Set FORMATS = new HashSet(Arrays.asList(new String[] {"format", "source", "provider"}));
  private static final Set OPTIONS = new HashSet(Arrays.asList(new String[] {"options", "hadoop_conf"}));
  /** Enough for a target, a source and the messages below them. Each level is parsed again, so deep nesting costs the server much time. */
  private static final int EXTENSIONS_MAX = 16;

  public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
    ServerCall.Listener listener = next.startCall(call, headers);
    return WarehouseGuard.isActive() ? new CheckingListener(call, listener) : listener;
  }

  /** Passes on the messages that are allowed, and closes the call at the first one that is not. */
  public static final class CheckingListener extends ServerCall.Listener {
    private final ServerCall call;
    private final ServerCall.Listener next;
    private boolean closed;

    CheckingListener(ServerCall call, ServerCall.Listener next) {
      this.call = call;
      this.next = next;
    }

    public void onMessage(Object message) {
      if (closed) return;
      try {
        if (message instanceof Message) check((Message) message, 0);
      } catch (Exception refused) {
        if (!(refused instanceof DeltaAnalysisError)) Platform.throwException(refused);
        closed = true;
        call.close(Status.PERMISSION_DENIED.withDescription(refused.getMessage()), new Metadata());
        return;
      }
      next.onMessage(message);
    }

    public void onHalfClose() {
      if (!closed) next.onHalfClose();
    }

    public void onCancel() {
      next.onCancel();
    }

    public void onComplete() {
      if (closed) next.onCancel();
      else next.onComplete();
    }

    public void onReady() {
      if (!closed) next.onReady();
    }
  }

  /** Checks a message and those below it. `extensions` is the number of extensions of Spark Connect around it. */
  private static void check(Message message, int extensions) {
    String kind = message.getDescriptorForType().getFullName();
    if (kind.equals("google.protobuf.Any")) {
      check(contentOf(message, extensions), extensions + 1);
      return;
    }
    boolean isOurs = kind.startsWith(MessageTypes.PACKAGE);
    if (!kind.startsWith(PACKAGE) && !isOurs) return;
    String name = isOurs ? kind : kind.substring(PACKAGE.length());
    if (REFUSED.contains(name)) throw WarehouseGuard.refused(name);
    boolean isArtifact = name.startsWith("AddArtifactsRequest.");
    boolean isSetting = name.equals("ConfigRequest.Set");
    if (name.equals("ConfigRequest.Unset")) checkUnset((List) message.getField(message.getDescriptorForType().findFieldByName("keys")));
    for (Iterator fields = message.getAllFields().entrySet().iterator(); fields.hasNext();) {
      Map.Entry field = (Map.Entry) fields.next();
      Descriptors.FieldDescriptor descriptor = (Descriptors.FieldDescriptor) field.getKey();
      Object value = field.getValue();
      if (isArtifact && descriptor.getName().equals("name") && !ROWS.matcher((String) value).matches())
        throw WarehouseGuard.refused("the artifact " + value);
      boolean isPath = isOurs ? PATHS.contains(descriptor.getName()) : descriptor.getName().equals("path");
      if (isPath && value instanceof String) WarehouseGuard.check((String) value);
      if (!isOurs && FORMATS.contains(descriptor.getName()) && value instanceof String) FormatOptions.checkFormat((String) value);
      if (!(value instanceof List)) {
        if (value instanceof Message) check((Message) value, extensions);
        continue;
      }
      for (Iterator elements = ((List) value).iterator(); elements.hasNext();) {
        Object element = elements.next();
        if (!(element instanceof Message)) continue;
        if (isSetting) checkSetting((Message) element);
        else if (descriptor.isMapField()) checkEntry(descriptor.getName(), (Message) element, extensions);
        else check((Message) element, extensions);
      }
    }
  }

  /** The message in an `Any`. Only messages about tables are allowed there. */
  private static Message contentOf(Message any, int extensions) {
    if (extensions >= EXTENSIONS_MAX) throw WarehouseGuard.refused("extensions of Spark Connect within each other");
    try {
      return MessageTypes.parse(Any.parseFrom(any.toByteString()));
    } catch (InvalidProtocolBufferException error) {
      throw WarehouseGuard.refused("an extension of Spark Connect");
    }
  }

  private static void checkSetting(Message pair) {
    Object key = pair.getField(pair.getDescriptorForType().findFieldByName("key"));
    ClientSettings.check((String) key, (String) pair.getField(pair.getDescriptorForType().findFieldByName("value")));
  }

  private static void checkUnset(List keys) {
    for (Iterator key = keys.iterator(); key.hasNext();) ClientSettings.check((String) key.next(), null);
  }

  private static void checkEntry(String field, Message entry, int extensions) {
    Object key = entry.getField(entry.getDescriptorForType().findFieldByName("key"));
    Object value = entry.getField(entry.getDescriptorForType().findFieldByName("value"));
    if (value instanceof Message) check((Message) value, extensions);
    else if (field.equals("properties") && value instanceof String) FormatOptions.checkProperty((String) key, (String) value);
    else if (OPTIONS.contains(field) && value instanceof String) FormatOptions.check((String) key, (String) value);
  }
}
