package anabranch;

import java.lang.ref.WeakReference;
import java.lang.reflect.Constructor;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Schemas and tables that are folders in one folder, for a DeltaCatalog with such a folder. */
public final class FolderCatalog implements TableCatalog, SupportsNamespaces, FunctionCatalog {
  private final String name;
  private final Object catalog;
  private volatile WeakReference owner = new WeakReference(null);

  /** @param catalog the catalog as the session has it */
  public FolderCatalog(String name, Object catalog) {
    this.name = name;
    this.catalog = catalog;
  }

  /** The session whose settings name the folder. Spark also calls the catalog while another session is active on the thread. */
  public Object session() {
    Object session = owner.get();
    if (session != null) return session;
    session = Sessions.of(name, catalog);
    if (session == null) return org.apache.spark.sql.classic.SparkSession.active();
    owner = new WeakReference(session);
    return session;
  }

  public String name() {
    return name;
  }

  public void initialize(String name, CaseInsensitiveStringMap options) {}

  /** The catalog's own folder: it may have tables, without a schema. */
  public String[] defaultNamespace() {
    return new String[0];
  }

  /** An entry as the session's catalog has for its tables; null if there is no such table. */
  public CatalogTable entry(Identifier ident) {
    // Spark uses the name of the entry made below when it looks the table up again after a batch of a stream.
    boolean isRoot = ident.namespace().length == 1 && ident.namespace()[0].isEmpty();
    String[] namespace = isRoot ? defaultNamespace() : ident.namespace();
    String fullName = full(Identifier.of(namespace, ident.name()));
    String location = PythonCallbacks.folderOfTable(session(), fullName);
    if (location == null) return null;
    TableIdentifier named = new TableIdentifier(
        ident.name(), scala.Option.apply(namespace.length == 0 ? "" : namespace[0]), scala.Option.apply(name));
    scala.Option none = scala.Option.empty();
    URI uri = new Path(location).toUri();
    CatalogStorageFormat empty = CatalogStorageFormat.empty();
    Object storage = made(CatalogStorageFormat.class, new Object[] {
        scala.Option.apply(uri), none, none, none, Boolean.FALSE, empty.properties(), none});
    Object[] arguments = {named, CatalogTableType$.MODULE$.MANAGED(), storage, new StructType(), scala.Option.apply("delta")};
    return (CatalogTable) made(CatalogTable.class, arguments);
  }

  /** The name with the catalog's, its parts separated by NUL. */
  public String full(Identifier ident) {
    return full(ident.namespace()) + '\0' + ident.name();
  }

  private String full(String[] namespace) {
    return namespace.length == 0 ? name : name + '\0' + String.join("\0", namespace);
  }

  /** A case class from its first arguments. The others differ by release of Spark, and get defaults. */
  private static Object made(Class of, Object[] first) {
    try {
      Constructor constructor = of.getConstructors()[0];
      Object[] arguments = new Object[constructor.getParameterTypes().length];
      for (int i = 0; i < arguments.length; i++) {
        arguments[i] = i < first.length ? first[i] : of.getMethod("apply$default$" + (i + 1), new Class[0]).invoke(null, new Object[0]);
      }
      return constructor.newInstance(arguments);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    String[] names = parts(PythonCallbacks.tablesInFolder(session(), full(namespace)));
    Identifier[] identifiers = new Identifier[names.length];
    for (int i = 0; i < identifiers.length; i++) identifiers[i] = Identifier.of(namespace, names[i]);
    return identifiers;
  }

  private static String[] parts(String text) {
    return text.isEmpty() ? new String[0] : text.split("\0", -1);
  }

  public boolean tableExists(Identifier ident) {
    return PythonEndpoint.isOpen() && entry(ident) != null;
  }

  /** DeltaCatalog loads existing tables, so this is called only for missing ones. */
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    throw missing(ident);
  }

  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    throw missing(ident);
  }

  public Table loadTable(Identifier ident, long time) throws NoSuchTableException {
    throw missing(ident);
  }

  private NoSuchTableException missing(Identifier ident) {
    String[] parts = full(ident).split("\0", -1);
    List all = new ArrayList(java.util.Arrays.asList(parts));
    return new NoSuchTableException(scala.jdk.javaapi.CollectionConverters.asScala(all).toSeq());
  }

  public Table createTable(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    Object provider = properties.get("provider");
    throw refused("format", full(ident) + '\0' + provider);
  }

  public Table alterTable(Identifier ident, TableChange[] changes) throws NoSuchTableException {
    throw missing(ident);
  }

  public boolean dropTable(Identifier ident) {
    return false;
  }

  public boolean purgeTable(Identifier ident) {
    return false;
  }

  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException {
    if (!tableExists(from)) throw missing(from);
    throw refused("rename", full(from));
  }

  private static RuntimeException refused(String what, String name) {
    PythonCallbacks.refuseInFolders(what, name);
    return new IllegalStateException(what);
  }

  public String[][] listNamespaces() {
    String[] names = parts(PythonCallbacks.schemasInFolder(session(), name));
    String[][] namespaces = new String[names.length][];
    for (int i = 0; i < namespaces.length; i++) namespaces[i] = new String[] {names[i]};
    return namespaces;
  }

  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) return listNamespaces();
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    return new String[0][];
  }

  public boolean namespaceExists(String[] namespace) {
    return location(namespace) != null;
  }

  private String location(String[] namespace) {
    return PythonCallbacks.folderOfSchema(session(), full(namespace));
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    String location = location(namespace);
    if (location == null) throw new NoSuchNamespaceException(namespace);
    Map metadata = new HashMap();
    metadata.put("location", location);
    return metadata;
  }

  public void createNamespace(String[] namespace, Map metadata) throws NamespaceAlreadyExistsException {
    if (namespaceExists(namespace)) throw new NamespaceAlreadyExistsException(namespace);
    // Spark itself sets the owner.
    Map properties = new HashMap(metadata);
    properties.remove("owner");
    if (!properties.isEmpty()) throw refused("schema", full(namespace) + '\0' + properties.keySet().iterator().next());
    PythonCallbacks.createFolderSchema(session(), full(namespace));
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    throw refused("alter schema", full(namespace));
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) throws NoSuchNamespaceException, NonEmptyNamespaceException {
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    if (!PythonCallbacks.dropFolderSchema(session(), full(namespace), cascade)) throw new NonEmptyNamespaceException(namespace);
    return true;
  }

  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0];
  }

  public UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    throw new NoSuchFunctionException(ident);
  }
}
