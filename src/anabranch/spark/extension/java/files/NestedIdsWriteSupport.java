package anabranch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;

/** Writes rows as Spark does, into a schema in which elements, keys and values have ids. Executors load it by name. */
public final class NestedIdsWriteSupport extends ParquetWriteSupport {
  /** Paths in the schema of a file, with U+0001 between their names, each followed by its id; U+0002 is between all of these. */
  public static final String IDS = "delta.parquet.ids";
  private static final String STEP = String.valueOf((char) 1);
  private static final String NEXT = String.valueOf((char) 2);

  public WriteSupport.WriteContext init(Configuration configuration) {
    WriteSupport.WriteContext plain = super.init(configuration);
    // Raw: a name may look like one of Hadoop's variables.
    String[] parts = configuration.getRaw(IDS).split(NEXT, -1);
    Map ids = new HashMap();
    for (int i = 0; i + 1 < parts.length; i += 2) ids.put(parts[i], Integer.valueOf(parts[i + 1]));
    MessageType schema = plain.getSchema();
    MessageType numbered = new MessageType(schema.getName(), numbered(schema, "", ids));
    return new WriteSupport.WriteContext(numbered, plain.getExtraMetaData());
  }

  private static List numbered(GroupType group, String prefix, Map ids) {
    List fields = new ArrayList();
    for (int i = 0; i < group.getFieldCount(); i++) {
      Type field = group.getType(i);
      String path = prefix + field.getName();
      if (!field.isPrimitive()) {
        GroupType nested = field.asGroupType();
        field = nested.withNewFields(numbered(nested, path + STEP, ids));
      }
      Integer id = (Integer) ids.get(path);
      fields.add(id == null ? field : field.withId(id.intValue()));
    }
    return fields;
  }
}
