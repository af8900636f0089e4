package delta;

import anabranch.DeltaChangelog;
import anabranch.DeltaTable;
import anabranch.FolderCatalog;
import anabranch.Pipelines;
import anabranch.PythonCallbacks;
import anabranch.PythonEndpoint;
import anabranch.StagedSparkTable;
import anabranch.TableChanges;
import anabranch.UserCache;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The session catalog, with our tables by name, version, time or path, and all others as before. Under another name it may be one of folders. */
public class DeltaCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  /** Null if the tables are those of the session's catalog. */
  private FolderCatalog folders;

  private Object session() {
    return folders != null ? folders.session() : org.apache.spark.sql.classic.SparkSession.active();
  }

  private Table tableAt(Identifier ident, String version, Long time) throws NoSuchTableException {
    if (isPath(ident)) {
      Table table = PythonCallbacks.tableByPath(session(), ident.name(), version, time);
      if (table == null) throw new NoSuchTableException(ident);
      return table;
    }
    CatalogTable entry = PythonEndpoint.isOpen() ? deltaEntry(ident) : null;
    if (entry != null) {
      String location = new Path((java.net.URI) entry.storage().locationUri().get()).toString();
      return PythonCallbacks.tableByEntry(session(), entry, location, version, time);
    }
    try {
      return version != null ? super.loadTable(ident, version) : time != null ? super.loadTable(ident, time.longValue()) : super.loadTable(ident);
    } catch (NoSuchTableException missing) {
      Table older = version == null && time == null && PythonEndpoint.isOpen() ? withSuffix(ident) : null;
      if (older == null) throw missing;
      return older;
    }
  }

  /** The entry of a table of ours. Spark's own catalog would get a table without its entry from `DefaultSource`. */
  private CatalogTable deltaEntry(Identifier ident) {
    if (folders != null) return folders.entry(ident);
    if (ident.namespace().length != 1) return null;
    SessionCatalog catalog = ((org.apache.spark.sql.classic.SparkSession) session()).sessionState().catalog();
    TableIdentifier name = new TableIdentifier(ident.name(), scala.Option.apply(ident.namespace()[0]));
    if (!catalog.databaseExists(ident.namespace()[0]) || !catalog.tableExists(name)) return null;
    CatalogTable entry;
    try {
      entry = catalog.getTableMetadata(name);
    } catch (NoSuchNamespaceException gone) {
      return null;
    } catch (NoSuchTableException gone) {
      return null;
    }
    boolean ours = entry.provider().isDefined() && "delta".equalsIgnoreCase((String) entry.provider().get());
    return ours && entry.storage().locationUri().isDefined() ? entry : null;
  }

  /** The table of `t@v3` or `t@20240131093000000`, if there is a table with the name before the sign. */
  private Table withSuffix(Identifier ident) throws NoSuchTableException {
    if (ident.name().indexOf('@') < 0) return null;
    String parts = PythonCallbacks.timeTravelOfName(session(), ident.name());
    if (parts == null) return null;
    String[] part = parts.split("\0", -1);
    Identifier plain = Identifier.of(ident.namespace(), part[0]);
    if (deltaEntry(plain) == null) return null;
    return part[1].equals("version") ? tableAt(plain, part[2], null) : tableAt(plain, null, Long.valueOf(part[2]));
  }

  /** Whether the name is that of a path: delta.`/folder`, or a URI. */
  private static boolean isPath(Identifier ident) {
    return PythonEndpoint.isOpen() && ident.namespace().length == 1 && isPath(ident.namespace()[0], ident.name());
  }

  public static boolean isPath(String namespace, String name) {
    return namespace.equalsIgnoreCase("delta") && (name.startsWith("/") || name.matches("[A-Za-z][A-Za-z0-9+.-]*:.*"));
  }

  /** The name with the catalog's; a path has none. */
  private Identifier full(Identifier ident) {
    if (isPath(ident)) return ident;
    String[] namespace = new String[ident.namespace().length + 1];
    namespace[0] = name();
    System.arraycopy(ident.namespace(), 0, namespace, 1, ident.namespace().length);
    return Identifier.of(namespace, ident.name());
  }

  /** The parts of the full name, separated by NUL. */
  private String parts(Identifier ident) {
    Identifier full = full(ident);
    return String.join("\0", full.namespace()) + '\0' + full.name();
  }

  /** Whether a new table is one of ours; without USING, the session's setting decides. Catalogs of folders have no others. */
  private boolean isDelta(Map properties) {
    return isDelta((String) properties.get("provider"));
  }

  public boolean isDelta(String provider) {
    if (provider == null && folders != null) return true;
    return "delta".equalsIgnoreCase(provider != null ? provider : SQLConf.get().defaultDataSourceName());
  }

  public Table loadTable(Identifier ident) throws NoSuchTableException {
    Class caller = StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE).getCallerClass();
    return Pipelines.loaded(tableAt(ident, null, null), caller);
  }

  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return tableAt(ident, version, null);
  }

  public Table loadTable(Identifier ident, long time) throws NoSuchTableException {
    return tableAt(ident, null, Long.valueOf(time));
  }

  /** `CHANGES FROM`, from Spark 4.2 on. */
  public CHANGES_RESULT loadChangelog(Identifier ident, CHANGES_CONTEXT context, CaseInsensitiveStringMap options) throws NoSuchTableException {
    Table table = loadTable(ident);
    // By this message Spark recognizes that a catalog does not support it.
    if (!(table instanceof DeltaTable)) throw new UnsupportedOperationException(name() + " does not support Change Data Capture (CDC)");
    return (CHANGES_RESULT) DeltaChangelog.of(PythonCallbacks.changesFrom(session(), (DeltaTable) table, context), (DeltaTable) table, context);
  }

  /** REFRESH TABLE: cached rows of the table are read again, too. */
  public void invalidateTable(Identifier ident) {
    if (isPath(ident)) {
      UserCache.refresh(session(), ident.name());
      return;
    }
    super.invalidateTable(ident);
    CatalogTable entry = PythonEndpoint.isOpen() ? deltaEntry(ident) : null;
    if (entry != null) UserCache.refresh(session(), new Path((java.net.URI) entry.storage().locationUri().get()).toString());
  }

  public boolean tableExists(Identifier ident) {
    if (!isPath(ident)) return super.tableExists(ident);
    return PythonCallbacks.tableByPath(session(), ident.name(), null, null) != null;
  }

  /** The capabilities that Spark requires for some statements, if this version of Spark has them. */
  public Set capabilities() {
    Set all = new HashSet(super.capabilities());
    String[] ours = {"SUPPORT_COLUMN_DEFAULT_VALUE", "SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS",
        "SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS", "SUPPORT_TABLE_CONSTRAINT"};
    TableCatalogCapability[] capabilities = TableCatalogCapability.values();
    for (int i = 0; i < capabilities.length; i++) if (Arrays.asList(ours).contains(capabilities[i].name())) all.add(capabilities[i]);
    return all;
  }

  public Table createTable(Identifier ident, Column[] columns, Transform[] partitions, Map properties) throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isDelta(properties)) return super.createTable(ident, columns, partitions, properties);
    return created(ident, columns, partitions, properties, "[]");
  }

  /** From Spark 4.1 on: with constraints. */
  public Table createTable(Identifier ident, TABLE_INFO info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    Column[] columns = (Column[]) TableChanges.optionalValue(info, "columns");
    Transform[] partitions = (Transform[]) TableChanges.optionalValue(info, "partitions");
    Map properties = (Map) TableChanges.optionalValue(info, "properties");
    if (!isDelta(properties)) return super.createTable(ident, columns, partitions, properties);
    String checks = TableChanges.constraints((Object[]) TableChanges.optionalValue(info, "constraints"));
    return created(ident, columns, partitions, properties, checks);
  }

  private Table created(Identifier ident, Column[] columns, Transform[] partitions, Map properties, String checks) throws TableAlreadyExistsException, NoSuchNamespaceException {
    checkSchema(ident);
    PythonCallbacks.createTable(session(), full(ident), columns, partitions, properties, checks);
    return existing(ident);
  }

  /** From Spark 4.2 on. */
  public Table createTableLike(Identifier ident, TABLE_INFO info, Table source) throws TableAlreadyExistsException, NoSuchNamespaceException {
    Map properties = (Map) TableChanges.optionalValue(info, "properties");
    boolean likeOurs = source instanceof DeltaTable;
    boolean unsaid = properties.get("provider") == null;
    checkSchema(ident);
    if (unsaid ? !likeOurs : !isDelta(properties)) return createTable(ident, info);
    Column[] columns = (Column[]) TableChanges.optionalValue(info, "columns");
    Transform[] partitions = (Transform[]) TableChanges.optionalValue(info, "partitions");
    PythonCallbacks.createTableLike(session(), full(ident), columns, partitions, properties, likeOurs ? source : null);
    return existing(ident);
  }

  /** Checks that the schema exists, for a catalog of folders; the session's catalog checks it itself. */
  private void checkSchema(Identifier ident) throws NoSuchNamespaceException {
    boolean inFolders = folders != null && ident.namespace().length == 1 && !isPath(ident);
    if (inFolders && !folders.namespaceExists(ident.namespace())) throw new NoSuchNamespaceException(full(ident).namespace());
  }

  private Table existing(Identifier ident) {
    try {
      return loadTable(ident);
    } catch (Exception failure) {
      // The table has been created or altered; a later error of the storage is no failure of that, and Spark loads the table again.
      return null;
    }
  }

  public Table alterTable(Identifier ident, TableChange[] changes) throws NoSuchTableException {
    Table table = loadTable(ident);
    if (!(table instanceof DeltaTable)) return super.alterTable(ident, changes);
    PythonCallbacks.alterTable(session(), table, TableChanges.json(changes));
    return existing(ident);
  }

  /** A catalog under another name has the tables of the session's catalog, too, unless its settings have a folder. */
  public void initialize(String name, CaseInsensitiveStringMap options) {
    super.initialize(name, options);
    if (name.equals("spark_catalog")) return;
    if (options.get("warehouse") != null) {
      folders = new FolderCatalog(name, this);
      setDelegateCatalog(folders);
      return;
    }
    setDelegateCatalog(new V2SessionCatalog(((org.apache.spark.sql.classic.SparkSession) session()).sessionState().catalog()));
  }

  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    if (folders != null && !isPath(from) || !isOurs(from)) {
      super.renameTable(from, to);
      return;
    }
    String[] namespace = to.namespace().length == 0 ? from.namespace() : to.namespace();
    String database = namespace[namespace.length - 1];
    if (!isPath(from) && tableExists(Identifier.of(new String[] {database}, to.name()))) throw new TableAlreadyExistsException(to);
    PythonCallbacks.renameTable(session(), parts(from), database, to.name());
  }

  public boolean dropTable(Identifier ident) {
    return isOurs(ident) ? dropped(ident, false) : super.dropTable(ident);
  }

  public boolean purgeTable(Identifier ident) {
    return isOurs(ident) ? dropped(ident, true) : super.purgeTable(ident);
  }

  /** Spark's own catalog would load the table first, but a table with a broken log can be dropped, too. */
  private boolean dropped(Identifier ident, boolean purge) {
    PythonCallbacks.dropTable(session(), parts(ident), purge);
    return true;
  }

  public boolean isOurs(Identifier ident) {
    return isPath(ident) || PythonEndpoint.isOpen() && deltaEntry(ident) != null;
  }

  /** Stages a table. One of another format is created at once, and dropped if the statement fails, as without staging. */
  private StagedTable staged(String how, Identifier ident, Column[] columns, Transform[] partitions, Map properties, String checks) {
    if (!isDelta(properties)) return otherStaged(how, ident, columns, partitions, properties);
    try {
      checkSchema(ident);
    } catch (NoSuchNamespaceException missing) {
      org.apache.spark.unsafe.Platform.throwException(missing);
    }
    return PythonCallbacks.stageTable(session(), how, full(ident), columns, partitions, properties, checks, StagedSparkTable.isSaveAsTable());
  }

  private StagedTable otherStaged(String how, Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    try {
      // It throws an error, before anything is dropped.
      if (folders != null) folders.createTable(ident, columns, partitions, properties);
      if (!how.equals("create") && super.tableExists(ident)) super.dropTable(ident);
      return new StagedSparkTable(this, ident, super.createTable(ident, columns, partitions, properties));
    } catch (Exception failure) {
      org.apache.spark.unsafe.Platform.throwException(failure);
      return null;
    }
  }

  private StagedTable staged(String how, Identifier ident, TABLE_INFO info) {
    Column[] columns = (Column[]) TableChanges.optionalValue(info, "columns");
    Transform[] partitions = (Transform[]) TableChanges.optionalValue(info, "partitions");
    Map properties = (Map) TableChanges.optionalValue(info, "properties");
    String checks = TableChanges.constraints((Object[]) TableChanges.optionalValue(info, "constraints"));
    return staged(how, ident, columns, partitions, properties, checks);
  }

  public StagedTable stageCreate(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    return staged("create", ident, columns, partitions, properties, "[]");
  }

  public StagedTable stageReplace(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    return staged("replace", ident, columns, partitions, properties, "[]");
  }

  public StagedTable stageCreateOrReplace(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    return staged("create or replace", ident, columns, partitions, properties, "[]");
  }

  /** From Spark 4.1 on, as the next two: with constraints. */
  public StagedTable stageCreate(Identifier ident, TABLE_INFO info) {
    return staged("create", ident, info);
  }

  public StagedTable stageReplace(Identifier ident, TABLE_INFO info) {
    return staged("replace", ident, info);
  }

  public StagedTable stageCreateOrReplace(Identifier ident, TABLE_INFO info) {
    return staged("create or replace", ident, info);
  }
}
