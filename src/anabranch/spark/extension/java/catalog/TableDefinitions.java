package anabranch;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ClusterBySpec$;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;

/** The definition of a new table in a statement, as JSON, for one call. */
public final class TableDefinitions {
  private TableDefinitions() {}

  /** The table's name as a list of parts, its columns, partition transforms and properties. */
  public static String json(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    Map definition = new LinkedHashMap();
    List name = new ArrayList(java.util.Arrays.asList(ident.namespace()));
    name.add(ident.name());
    definition.put("name", name);
    List all = new ArrayList();
    for (int i = 0; i < columns.length; i++) all.add(column(columns[i]));
    definition.put("columns", all);
    List transforms = new ArrayList();
    for (int i = 0; i < partitions.length; i++) transforms.add(transform(partitions[i]));
    definition.put("transforms", transforms);
    definition.put("properties", properties);
    return Json.text(definition);
  }

  /** The definition of a new table in Spark's older kind of statement: name, location, properties, options of the writer. */
  public static String jsonOf(CatalogTable table) {
    Map definition = new LinkedHashMap();
    definition.put("database", table.identifier().database().isDefined() ? table.identifier().database().get() : null);
    definition.put("name", table.identifier().table());
    scala.Option location = table.storage().locationUri();
    definition.put("location", location.isDefined() ? new Path((java.net.URI) location.get()).toString() : null);
    definition.put("comment", table.comment().isDefined() ? table.comment().get() : null);
    Map properties = new LinkedHashMap(scala.jdk.javaapi.CollectionConverters.asJava(table.properties()));
    Object clustering = properties.remove("clusteringColumns");
    definition.put("clusteringColumns", clustering == null ? new ArrayList() : clusteringColumns((String) clustering));
    definition.put("properties", properties);
    definition.put("options", scala.jdk.javaapi.CollectionConverters.asJava(table.storage().properties()));
    definition.put("partitionColumns", scala.jdk.javaapi.CollectionConverters.asJava(table.partitionColumnNames()));
    return Json.text(definition);
  }

  /** The columns in a property of the catalog, a list of names that are lists of parts. */
  private static List clusteringColumns(String text) {
    List names = new ArrayList();
    scala.collection.immutable.Seq columns = ClusterBySpec$.MODULE$.fromProperty(text).columnNames();
    for (int i = 0; i < columns.size(); i++) names.add(columns.apply(i).toString());
    return names;
  }

  private static Map column(Column column) {
    Map description = new LinkedHashMap();
    description.put("name", column.name());
    description.put("type", column.dataType().json());
    description.put("nullable", Boolean.valueOf(column.nullable()));
    description.put("comment", column.comment());
    description.put("metadata", column.metadataInJSON());
    ColumnDefaultValue value = column.defaultValue();
    description.put("default", value == null ? null : TableChanges.optionalValue(value, "getSql"));
    description.put("generated", column.generationExpression());
    IdentityColumnSpec identity = column.identityColumnSpec();
    if (identity != null) {
      Map numbers = new LinkedHashMap();
      numbers.put("start", Long.valueOf(identity.getStart()));
      numbers.put("step", Long.valueOf(identity.getStep()));
      numbers.put("allow_explicit", Boolean.valueOf(identity.isAllowExplicitInsert()));
      description.put("identity", numbers);
    }
    return description;
  }

  private static Map transform(Transform transform) {
    Map description = new LinkedHashMap();
    description.put("name", transform.name());
    description.put("text", transform.describe());
    List columns = new ArrayList();
    NamedReference[] references = transform.references();
    for (int i = 0; i < references.length; i++) columns.add(java.util.Arrays.asList(references[i].fieldNames()));
    description.put("columns", columns);
    return description;
  }
}
