package anabranch;

import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;

/**
 * The functions of Python that Java calls. A method here calls the function of the same name, in Python's spelling, of a handler in
 * `anabranch.callbacks`; the handler says what it does. `tests/extension/test_python_callbacks.py` compares names and parameters.
 */
public final class PythonCallbacks {
  private PythonCallbacks() {}

  // Statements.

  public static LogicalPlan commandOf(Object session, String node, LogicalPlan statement) {
    return (LogicalPlan) PythonEndpoint.call("HandlerRegistry.command_of", session, node, statement);
  }

  public static Seq runCommand(Object session, String node, Object statement) {
    return (Seq) PythonEndpoint.call("HandlerRegistry.run_command", session, node, statement);
  }

  public static LogicalPlan parseOwnStatement(Object session, String text) {
    return (LogicalPlan) PythonEndpoint.callFromProxy("OwnStatementHandler.parse_own_statement", session, text);
  }

  public static String quoteVersions(String text) {
    return (String) PythonEndpoint.callFromProxy("TableHandler.quote_versions", text);
  }

  // Tables.

  public static Table tableByPath(Object session, String path, String version, Long micros) {
    return (Table) PythonEndpoint.call("TableHandler.table_by_path", session, path, version, micros);
  }

  public static void checkTableByPath(Object session, String path) {
    PythonEndpoint.call("TableHandler.check_table_by_path", session, path);
  }

  public static Table tableByEntry(Object session, CatalogTable entry, String location, String version, Long micros) {
    return (Table) PythonEndpoint.call("TableHandler.table_by_entry", session, entry, location, version, micros);
  }

  public static String timeTravelOfName(Object session, String name) {
    return (String) PythonEndpoint.call("TableHandler.time_travel_of_name", session, name);
  }

  public static DeltaTable tableByOptions(Object session, Map options, StructType schema) {
    return (DeltaTable) PythonEndpoint.call("TableHandler.table_by_options", session, options, schema);
  }

  public static void checkDeclaredSchema(Object session, DeltaTable table, String declared) {
    PythonEndpoint.call("TableHandler.check_declared_schema", session, table, declared);
  }

  public static DeltaTable changeFeed(Object session, DeltaTable table, CaseInsensitiveStringMap options) {
    return (DeltaTable) PythonEndpoint.call("TableHandler.change_feed", session, table, options);
  }

  public static DeltaTable changesFrom(Object session, DeltaTable table, Object context) {
    return (DeltaTable) PythonEndpoint.call("TableHandler.changes_from", session, table, context);
  }

  public static LogicalPlan streamOfChanges(Object session, DeltaTable table, Object context, CaseInsensitiveStringMap options) {
    return (LogicalPlan) PythonEndpoint.call("TableHandler.stream_of_changes", session, table, context, options);
  }

  // Rows.

  public static LogicalPlan rowsOfChanges(Object session, DeltaTable table) {
    return (LogicalPlan) PythonEndpoint.call("TableHandler.rows_of_changes", session, table);
  }

  public static LogicalPlan rowsOfTable(Object session, DeltaTable table, Long execution, boolean withMetadata) {
    return (LogicalPlan) PythonEndpoint.call("ReadHandler.rows_of_table", session, table, execution, withMetadata);
  }

  public static String aggregateTable(Object session, DeltaTable table, Long execution, String aggregates) {
    return (String) PythonEndpoint.call("ReadHandler.aggregate_table", session, table, execution, aggregates);
  }

  public static void recordReads(Object session, String transaction, LogicalPlan plan) {
    PythonEndpoint.call("ReadHandler.record_reads", session, transaction, plan);
  }

  public static void checkReaderOptions(Map options) {
    PythonEndpoint.call("ReadHandler.check_reader_options", options);
  }

  public static void refuseTableWithoutColumns(DeltaTable table) {
    PythonEndpoint.call("ReadHandler.refuse_table_without_columns", table);
  }

  public static Object rowsOfFunction(Object session, String function, Object arguments) {
    return PythonEndpoint.call("TableFunctionHandler.rows_of_function", session, function, arguments);
  }

  // Writes, and changes of rows.

  public static void save(Object session, String mode, Map options, Object rows) {
    PythonEndpoint.call("WriteHandler.save", session, mode, options, rows);
  }

  public static Expression columnDefault(Object session, DeltaTable table, String column) {
    return (Expression) PythonEndpoint.call("WriteHandler.column_default", session, table, column);
  }

  public static StagedTable stageTable(
      Object session, String mode, Identifier ident, Column[] columns, Transform[] partitions, Map properties, String checks, boolean saves) {
    return (StagedTable) PythonEndpoint.call(
        "WriteHandler.stage_table", session, mode, ident, columns, partitions, properties, checks, saves);
  }

  public static void commitStagedTable(Object session, String key) {
    PythonEndpoint.call("WriteHandler.commit_staged_table", session, key);
  }

  public static void abortStagedTable(String key) {
    PythonEndpoint.call("WriteHandler.abort_staged_table", key);
  }

  public static void refuseTarget(String node, String problem) {
    PythonEndpoint.call("DmlHandler.refuse_target", node, problem);
  }

  public static void refuseFilteredTarget(String node) {
    PythonEndpoint.call("DmlHandler.refuse_filtered_target", node);
  }

  public static void refuseMetadataColumn(String rows) {
    PythonEndpoint.call("DmlHandler.refuse_metadata_column", rows);
  }

  // Definitions.

  public static void createTable(
      Object session, Identifier ident, Column[] columns, Transform[] partitions, Map properties, String checks) {
    PythonEndpoint.call("DefinitionHandler.create_table", session, ident, columns, partitions, properties, checks);
  }

  public static void createTableLike(
      Object session, Identifier ident, Column[] columns, Transform[] partitions, Map properties, Table source) {
    PythonEndpoint.call("DefinitionHandler.create_table_like", session, ident, columns, partitions, properties, source);
  }

  public static void alterTable(Object session, Table table, String changes) {
    PythonEndpoint.call("DefinitionHandler.alter_table", session, table, changes);
  }

  public static void renameTable(Object session, String fullName, String newDatabase, String newName) {
    PythonEndpoint.call("DefinitionHandler.rename_table", session, fullName, newDatabase, newName);
  }

  public static void dropTable(Object session, String fullName, boolean purge) {
    PythonEndpoint.call("DefinitionHandler.drop_table", session, fullName, purge);
  }

  public static void truncateTable(Object session, DeltaTable table) {
    PythonEndpoint.call("DefinitionHandler.truncate_table", session, table);
  }

  public static void refuseOtherFormat(Object session, String operation, String database, String name, String tableFormat) {
    PythonEndpoint.call("DefinitionHandler.refuse_other_format", session, operation, database, name, tableFormat);
  }

  public static void warnOfOtherFormat(Object session, String database, String name) {
    PythonEndpoint.call("DefinitionHandler.warn_of_other_format", session, database, name);
  }

  public static void warnOfOtherFiles(String folder, String tableFormat, boolean deletes) {
    PythonEndpoint.call("DefinitionHandler.warn_of_other_files", folder, tableFormat, deletes);
  }

  // Catalogs of folders. Parts of names are separated by NUL, and so are names.

  public static String folderOfTable(Object session, String fullName) {
    return (String) PythonEndpoint.call("FolderCatalogHandler.folder_of_table", session, fullName);
  }

  public static String folderOfSchema(Object session, String fullName) {
    return (String) PythonEndpoint.call("FolderCatalogHandler.folder_of_schema", session, fullName);
  }

  public static String tablesInFolder(Object session, String fullName) {
    return (String) PythonEndpoint.call("FolderCatalogHandler.tables_in_folder", session, fullName);
  }

  public static String schemasInFolder(Object session, String fullName) {
    return (String) PythonEndpoint.call("FolderCatalogHandler.schemas_in_folder", session, fullName);
  }

  public static void createFolderSchema(Object session, String fullName) {
    PythonEndpoint.call("FolderCatalogHandler.create_folder_schema", session, fullName);
  }

  public static boolean dropFolderSchema(Object session, String fullName, boolean cascade) {
    return (Boolean) PythonEndpoint.call("FolderCatalogHandler.drop_folder_schema", session, fullName, cascade);
  }

  public static void refuseInFolders(String operation, String names) {
    PythonEndpoint.call("FolderCatalogHandler.refuse_in_folders", operation, names);
  }

  // Streams.

  public static void openSink(Object session, String options, String partitions, String mode, CatalogTable entry) {
    PythonEndpoint.call("StreamSinkHandler.open_sink", session, options, partitions, mode, entry);
  }

  public static void addBatch(
      Object session, String options, String partitions, String mode, CatalogTable entry, long number, Object rows, LogicalPlan plan) {
    PythonEndpoint.call("StreamSinkHandler.add_batch", session, options, partitions, mode, entry, number, rows, plan);
  }

  public static CatalogTable entryOfPath(Object session, DeltaTable table) {
    return (CatalogTable) PythonEndpoint.call("StreamSinkHandler.entry_of_path", session, table);
  }

  public static void refuseSinkByName(String path) {
    PythonEndpoint.call("StreamSinkHandler.refuse_sink_by_name", path);
  }

  public static String streamColumns(Object session, String options, String declared) {
    return (String) PythonEndpoint.call("StreamSourceHandler.stream_columns", session, options, declared);
  }

  public static String openStream(Object session, String options, String sourcePath) {
    return (String) PythonEndpoint.call("StreamSourceHandler.open_stream", session, options, sourcePath);
  }

  public static void prepareForAvailableNow(String key) {
    PythonEndpoint.call("StreamSourceHandler.prepare_for_available_now", key);
  }

  public static String latestOffset(String key, String start, boolean isLimited) {
    return (String) PythonEndpoint.call("StreamSourceHandler.latest_offset", key, start, isLimited);
  }

  public static LogicalPlan rowsOfBatch(String key, String start, String end) {
    return (LogicalPlan) PythonEndpoint.call("StreamSourceHandler.rows_of_batch", key, start, end);
  }

  public static void commitBatch(String key, String end) {
    PythonEndpoint.call("StreamSourceHandler.commit_batch", key, end);
  }

  public static String streamMetrics(String key) {
    return (String) PythonEndpoint.call("StreamSourceHandler.stream_metrics", key);
  }

  public static void closeStream(String key) {
    PythonEndpoint.call("StreamSourceHandler.close_stream", key);
  }

  // Messages of clients.

  public static Object executeMessage(Object session, String family, String fields, Object reader) {
    return PythonEndpoint.call("MessageHandler.execute_message", session, family, fields, reader);
  }

  public static void refuseMessage(String family, String problem) {
    PythonEndpoint.call("MessageHandler.refuse_message", family, problem);
  }
}
