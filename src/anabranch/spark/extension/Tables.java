package delta;

import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;

/** The facts of a table that Python needs, in one call. */
public final class Tables {
  private Tables() {}

  /**
   * Parts, each with NUL at its end: path, name as Spark shows it, version (empty for the newest), schema as JSON, catalog, database and
   * name in it, kind of entry (these four empty for a table by path); then keys and values of the options.
   */
  public static String facts(DeltaTable table) {
    StringBuilder facts = new StringBuilder();
    add(facts, table.path);
    add(facts, table.name);
    add(facts, table.version == null ? "" : table.version.toString());
    add(facts, table.schemaJson);
    CatalogTable entry = (CatalogTable) table.catalogTable;
    facts.append(entry == null ? "\0\0\0\0" : entryFacts(entry));
    return facts.append(entries(table.options)).toString();
  }

  /** Catalog (empty for the session's), database and name in it, and kind of entry, each with NUL at its end. */
  public static String entryFacts(CatalogTable entry) {
    StringBuilder facts = new StringBuilder();
    scala.Option catalog = entry.identifier().catalog();
    add(facts, catalog.isEmpty() ? "" : (String) catalog.get());
    add(facts, (String) entry.identifier().database().get());
    add(facts, entry.identifier().table());
    add(facts, entry.tableType().name());
    return facts.toString();
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

  private static void add(StringBuilder facts, String fact) {
    facts.append(fact).append('\0');
  }
}
