package anabranch;

import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;

/** What Python needs of a table, in one call. */
public final class TableFields {
  private TableFields() {}

  /**
   * The fields, each with NUL at its end: path, name as Spark shows it, version (empty for the newest), schema as JSON, catalog, database and
   * name in it, kind of entry (these four empty for a table by path); then keys and values of the options.
   */
  public static String fields(DeltaTable table) {
    StringBuilder fields = new StringBuilder();
    add(fields, table.path);
    add(fields, table.name);
    add(fields, table.version == null ? "" : table.version.toString());
    add(fields, table.schemaJson);
    CatalogTable entry = (CatalogTable) table.catalogTable;
    fields.append(entry == null ? "\0\0\0\0" : entryFields(entry));
    return fields.append(entries(table.options)).toString();
  }

  /** Catalog (empty for the session's), database and name in it, and kind of entry, each with NUL at its end. */
  public static String entryFields(CatalogTable entry) {
    StringBuilder fields = new StringBuilder();
    scala.Option catalog = entry.identifier().catalog();
    add(fields, catalog.isEmpty() ? "" : (String) catalog.get());
    add(fields, (String) entry.identifier().database().get());
    add(fields, entry.identifier().table());
    add(fields, entry.tableType().name());
    return fields.toString();
  }

  /** Keys and values of a map of strings, each with NUL at its end. */
  public static String entries(Map map) {
    StringBuilder entries = new StringBuilder();
    for (Iterator iterator = map.entrySet().iterator(); iterator.hasNext();) {
      Map.Entry entry = (Map.Entry) iterator.next();
      add(entries, (String) entry.getKey());
      add(entries, (String) entry.getValue());
    }
    return entries.toString();
  }

  private static void add(StringBuilder text, String field) {
    text.append(field).append('\0');
  }
}
