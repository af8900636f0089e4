package delta.server;

import delta.DeltaError;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;
import org.sparkproject.connect.protobuf.Descriptors;
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
        if (message instanceof Message) look((Message) message);
      } catch (DeltaError refused) {
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

  private static void look(Message message) {
    String kind = message.getDescriptorForType().getFullName();
    if (!kind.startsWith(PACKAGE)) {
      if (kind.equals("google.protobuf.Any")) throw OnlyWarehouse.refused("an extension of Spark Connect");
      return;
    }
    String name = kind.substring(PACKAGE.length());
    if (REFUSED.contains(name)) throw OnlyWarehouse.refused(name);
    boolean isArtifact = name.startsWith("AddArtifactsRequest.");
    boolean isSetting = name.equals("ConfigRequest.Set");
    for (Iterator each = message.getAllFields().entrySet().iterator(); each.hasNext();) {
      Map.Entry field = (Map.Entry) each.next();
      Descriptors.FieldDescriptor facts = (Descriptors.FieldDescriptor) field.getKey();
      Object value = field.getValue();
      if (isArtifact && facts.getName().equals("name") && !((String) value).startsWith("cache/"))
        throw OnlyWarehouse.refused("the artifact " + value);
      if (facts.getName().equals("path") && value instanceof String) OnlyWarehouse.check((String) value);
      if (!(value instanceof List)) {
        if (value instanceof Message) look((Message) value);
        continue;
      }
      for (Iterator part = ((List) value).iterator(); part.hasNext();) {
        Object one = part.next();
        if (!(one instanceof Message)) continue;
        if (isSetting) lookAtSetting((Message) one);
        else if (facts.isMapField()) lookAtEntry(name, facts.getName(), (Message) one);
        else look((Message) one);
      }
    }
  }

  private static void lookAtSetting(Message pair) {
    ClientSettings.check((String) pair.getField(pair.getDescriptorForType().findFieldByName("key")));
  }

  private static void lookAtEntry(String message, String field, Message entry) {
    Object key = entry.getField(entry.getDescriptorForType().findFieldByName("key"));
    Object value = entry.getField(entry.getDescriptorForType().findFieldByName("value"));
    if (value instanceof Message) look((Message) value);
    else if (field.equals("options") && value instanceof String) PlanPaths.checkOption((String) key, (String) value);
  }
}
