package delta;

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

/** What a statement says of a table to be, as JSON, in one call. */
public final class Definitions {
  private Definitions() {}

  /** The table's name as a list of parts, its columns, partition transforms and properties. */
  public static String facts(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    Map found = new LinkedHashMap();
    List name = new ArrayList(java.util.Arrays.asList(ident.namespace()));
    name.add(ident.name());
    found.put("name", name);
    List all = new ArrayList();
    for (int i = 0; i < columns.length; i++) all.add(column(columns[i]));
    found.put("columns", all);
    List transforms = new ArrayList();
    for (int i = 0; i < partitions.length; i++) transforms.add(transform(partitions[i]));
    found.put("transforms", transforms);
    found.put("properties", properties);
    return Json.text(found);
  }

  /** What Spark's older kind of statement says of a table to be: name, place, properties, options of the writer. */
  public static String factsOf(CatalogTable table) {
    Map found = new LinkedHashMap();
    found.put("database", table.identifier().database().isDefined() ? table.identifier().database().get() : null);
    found.put("name", table.identifier().table());
    scala.Option location = table.storage().locationUri();
    found.put("location", location.isDefined() ? new Path((java.net.URI) location.get()).toString() : null);
    found.put("comment", table.comment().isDefined() ? table.comment().get() : null);
    Map properties = new LinkedHashMap(scala.jdk.javaapi.CollectionConverters.asJava(table.properties()));
    Object clustering = properties.remove("clusteringColumns");
    found.put("clusteringColumns", clustering == null ? new ArrayList() : clusteringColumns((String) clustering));
    found.put("properties", properties);
    found.put("options", scala.jdk.javaapi.CollectionConverters.asJava(table.storage().properties()));
    found.put("partitionColumns", scala.jdk.javaapi.CollectionConverters.asJava(table.partitionColumnNames()));
    return Json.text(found);
  }

  /** Of a property of the catalog, a list of names that are lists of parts. */
  private static List clusteringColumns(String text) {
    List found = new ArrayList();
    scala.collection.immutable.Seq columns = ClusterBySpec$.MODULE$.fromProperty(text).columnNames();
    for (int i = 0; i < columns.size(); i++) found.add(columns.apply(i).toString());
    return found;
  }

  private static Map column(Column column) {
    Map found = new LinkedHashMap();
    found.put("name", column.name());
    found.put("type", column.dataType().json());
    found.put("nullable", Boolean.valueOf(column.nullable()));
    found.put("comment", column.comment());
    found.put("metadata", column.metadataInJSON());
    ColumnDefaultValue value = column.defaultValue();
    found.put("default", value == null ? null : TableChanges.told(value, "getSql"));
    found.put("generated", column.generationExpression());
    IdentityColumnSpec identity = column.identityColumnSpec();
    if (identity != null) {
      Map numbers = new LinkedHashMap();
      numbers.put("start", Long.valueOf(identity.getStart()));
      numbers.put("step", Long.valueOf(identity.getStep()));
      numbers.put("allow_explicit", Boolean.valueOf(identity.isAllowExplicitInsert()));
      found.put("identity", numbers);
    }
    return found;
  }

  private static Map transform(Transform transform) {
    Map found = new LinkedHashMap();
    found.put("name", transform.name());
    found.put("text", transform.describe());
    List columns = new ArrayList();
    NamedReference[] references = transform.references();
    for (int i = 0; i < references.length; i++) columns.add(java.util.Arrays.asList(references[i].fieldNames()));
    found.put("columns", columns);
    return found;
  }
}
