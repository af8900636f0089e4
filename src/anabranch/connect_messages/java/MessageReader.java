package anabranch.messages;

import anabranch.Json;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.connect.proto.DataType;
import org.apache.spark.connect.proto.Expression;
import org.apache.spark.connect.proto.Relation;
import org.apache.spark.sql.connect.common.DataTypeProtoConverter;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.sparkproject.connect.protobuf.Any;
import org.sparkproject.connect.protobuf.Descriptors;
import org.sparkproject.connect.protobuf.InvalidProtocolBufferException;
import org.sparkproject.connect.protobuf.Message;

/** One message as plain values, with Spark's messages in it as Spark's planner reads them. */
public final class MessageReader {
  private static final String SPARKS = "spark.connect.";
  private static final String TYPES = "spark.connect.DataType";
  private final SparkConnectPlanner planner;
  private final List nested = new ArrayList();

  MessageReader(SparkConnectPlanner planner) {
    this.planner = planner;
  }

  /**
   * The kind of message in a relation or a command, and its fields by name: `{"MergeIntoTable": {…}}`, or `{}`. A field without a
   * value is left out. Relations and expressions are numbers for `plan` and `expression`.
   */
  String read(String family, Any any) throws InvalidProtocolBufferException {
    Message message = MessageTypes.parse(any);
    String name = message.getDescriptorForType().getName();
    if (!name.equals(family)) throw new InvalidProtocolBufferException("it is a " + name);
    Map content = Collections.EMPTY_MAP;
    for (Iterator each = message.getAllFields().values().iterator(); each.hasNext();) {
      Message held = (Message) each.next();
      content = Collections.singletonMap(held.getDescriptorForType().getName(), fields(held));
    }
    return Json.text(content);
  }

  public Object plan(int number) throws IOException {
    return planner.transformRelation(Relation.parseFrom(MessageTypes.limited(((Message) nested.get(number)).toByteString())));
  }

  public Object expression(int number) throws IOException {
    return planner.transformExpression(Expression.parseFrom(MessageTypes.limited(((Message) nested.get(number)).toByteString())));
  }

  private Map fields(Message message) throws InvalidProtocolBufferException {
    Map values = new LinkedHashMap();
    for (Iterator each = message.getDescriptorForType().getFields().iterator(); each.hasNext();) {
      Descriptors.FieldDescriptor field = (Descriptors.FieldDescriptor) each.next();
      if (field.hasPresence() && !message.hasField(field)) continue;
      values.put(field.getName(), value(field, message.getField(field)));
    }
    return values;
  }

  private Object value(Descriptors.FieldDescriptor field, Object held) throws InvalidProtocolBufferException {
    if (!field.isRepeated()) return single(field, held);
    if (field.isMapField()) return entries((List) held);
    List values = new ArrayList();
    for (Iterator each = ((List) held).iterator(); each.hasNext();) values.add(single(field, each.next()));
    return values;
  }

  private static Map entries(List entries) {
    Map values = new LinkedHashMap();
    for (Iterator each = entries.iterator(); each.hasNext();) {
      Message entry = (Message) each.next();
      Descriptors.Descriptor type = entry.getDescriptorForType();
      values.put(entry.getField(type.findFieldByName("key")), entry.getField(type.findFieldByName("value")));
    }
    return values;
  }

  private Object single(Descriptors.FieldDescriptor field, Object held) throws InvalidProtocolBufferException {
    if (held instanceof Descriptors.EnumValueDescriptor) return ((Descriptors.EnumValueDescriptor) held).getName();
    if (!(held instanceof Message)) return held;
    String name = field.getMessageType().getFullName();
    if (name.equals(TYPES)) return type((Message) held);
    if (!name.startsWith(SPARKS)) return fields((Message) held);
    nested.add(held);
    return Integer.valueOf(nested.size() - 1);
  }

  /** Its JSON, or text of SQL that the client has not read. */
  private Map type(Message message) throws InvalidProtocolBufferException {
    DataType type;
    try {
      type = DataType.parseFrom(MessageTypes.limited(message.toByteString()));
    } catch (InvalidProtocolBufferException error) {
      throw error;
    } catch (IOException error) {
      throw new InvalidProtocolBufferException(error);
    }
    if (type.hasUnparsed()) return Collections.singletonMap("ddl", type.getUnparsed().getDataTypeString());
    return Collections.singletonMap("json", DataTypeProtoConverter.toCatalystType(type).json());
  }
}
