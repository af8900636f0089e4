package anabranch.server;

import anabranch.DeltaTable;
import delta.DefaultSource;
import java.util.Arrays;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.logical.FormatClasses;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;

/**
 * Checks the files that a plan names. It visits all elements of all nodes, so it does not depend on the kinds of nodes of one release
 * of Spark. Features that can reach files in other ways are refused, and so are formats that are not in its lists.
 */
final class PlanChecker {
  private static final Set REFUSED = set(new String[] {
      "AddJarsCommand", "AddFilesCommand", "AddArchivesCommand", "ScriptTransformation", "CreateFunction", "CreateFunctionCommand",
      "CallMethodViaReflection", "TryReflect", "HiveSimpleUDF", "HiveGenericUDF", "HiveGenericUDTF", "HiveUDAFFunction"});
  /** Elements of nodes that hold a path or several. */
  private static final Set PATHS = set(new String[] {"path", "paths", "location", "userspecifiedcheckpointlocation"});
  private static final Set NAMES = set(new String[] {"multipartIdentifier", "nameParts"});
  /** Elements that name a format, and those that name a class of Hive. */
  private static final Set FORMATS = set(new String[] {"provider", "classname", "format", "source"});
  private static final Set CLASSES = set(new String[] {"inputformat", "outputformat", "serde", "serdeclassname"});
  /** Elements that hold partition values by column. */
  private static final Set VALUES = set(new String[] {"partitionSpec", "partSpec", "partition", "staticPartitions", "spec"});
  private static final String[] TABLES = {
      "anabranch.", "org.apache.spark.sql.execution.streaming.", "org.apache.spark.sql.execution.datasources.noop.",
      "org.apache.spark.sql.connector.catalog.V1Table"};
  private static final int DEPTH_MAX = 2000;

  private final IdentityHashMap visited = new IdentityHashMap();

  /** Throws if the plan names a file outside the warehouse, or a feature that can reach one. */
  void check(LogicalPlan plan) {
    check(plan, "", 0);
  }

  /** Checks a node or an element of one; `name` is the element's name in its node. */
  private void check(Object element, String name, int depth) {
    if (element == null || depth > DEPTH_MAX) return;
    if (element instanceof String) checkText((String) element, name);
    else if (element instanceof java.net.URI) WarehouseGuard.check(new Path((java.net.URI) element).toString());
    else if (element instanceof Path) WarehouseGuard.check(element.toString());
    else if (element instanceof scala.Option) {
      if (((scala.Option) element).isDefined()) check(((scala.Option) element).get(), name, depth + 1);
    } else if (element instanceof scala.collection.Map)
      checkOptions(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) element), name, depth);
    else if (element instanceof Map) checkOptions((Map) element, name, depth);
    else if (element instanceof LogicalPlan || element instanceof Expression) checkNode((scala.Product) element, depth);
    else if (element instanceof scala.collection.Seq)
      checkAll(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) element), name, depth);
    else if (element instanceof BaseRelation) checkRelation((BaseRelation) element, depth);
    else if (element instanceof FileIndex)
      checkAll(scala.jdk.javaapi.CollectionConverters.asJava(((FileIndex) element).rootPaths()), "paths", depth);
    else if (element instanceof Table) checkTable((Table) element, depth);
    else if (element instanceof CreatableRelationProvider)
      require(element instanceof DefaultSource, element.getClass().getName());
    else if (isPartOfNode(element)) checkElements((scala.Product) element, depth);
  }

  private void checkText(String text, String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    if (PATHS.contains(lower)) WarehouseGuard.check(text);
    if (FORMATS.contains(lower)) FormatOptions.checkFormat(text);
    if (CLASSES.contains(lower)) FormatOptions.checkClass(text);
    if (lower.equals("storedas")) FormatOptions.checkStoredAs(text);
  }

  private void checkOptions(Map options, String name, int depth) {
    for (Iterator entries = options.entrySet().iterator(); entries.hasNext();) {
      Map.Entry option = (Map.Entry) entries.next();
      if (!(option.getKey() instanceof String) || !(option.getValue() instanceof String)) check(option.getValue(), "", depth + 1);
      else if (name.equals("properties")) FormatOptions.checkProperty((String) option.getKey(), (String) option.getValue());
      else if (!VALUES.contains(name)) FormatOptions.check((String) option.getKey(), (String) option.getValue());
    }
  }

  private void checkNode(scala.Product node, int depth) {
    if (visited.put(node, Boolean.TRUE) != null) return;
    String kind = node.getClass().getSimpleName();
    boolean runsCode = node instanceof PythonFuncExpression || REFUSED.contains(kind);
    boolean isOfSpark = node.getClass().getName().startsWith("org.apache.spark.");
    if (runsCode || node instanceof LogicalPlan && isOfSpark && (kind.indexOf("Python") >= 0 || kind.indexOf("Pandas") >= 0 || kind.indexOf("InArrow") >= 0))
      throw WarehouseGuard.refused(kind);
    // These hold rows, or, in a stream without a checkpoint folder, Spark's own temporary folder.
    if (kind.equals("LocalRelation") || kind.equals("LogicalRDD") || kind.equals("Literal") || kind.equals("AttributeReference")) return;
    if (kind.equals("SetCommand")) checkSetting(node);
    if (kind.equals("ResetCommand")) checkReset((scala.Option) node.productElement(0));
    if (kind.equals("AlterTableAddPartitionCommand")) checkPartitions((scala.collection.Seq) node.productElement(1));
    checkElements(node, depth);
  }

  private void checkElements(scala.Product node, int depth) {
    if (!(node instanceof LogicalPlan) && !(node instanceof Expression) && visited.put(node, Boolean.TRUE) != null) return;
    for (int i = 0; i < node.productArity(); i++) {
      Object element = node.productElement(i);
      String name = nameOf(node, i);
      if (node instanceof FormatClasses) FormatOptions.checkClass((String) element);
      else if (node instanceof CatalogStorageFormat && element instanceof scala.collection.Map) check(element, "options", depth + 1);
      else if (NAMES.contains(name) && element instanceof scala.collection.Seq) checkName((scala.collection.Seq) element);
      else if (!name.equals("rows")) check(element, name, depth + 1);
    }
  }

  private static String nameOf(scala.Product node, int index) {
    return node.getClass().getName().startsWith("scala.") ? "" : node.productElementName(index);
  }

  /** Checks the path at the end of a name. Its format is checked after Spark has resolved the name. */
  private static void checkName(scala.collection.Seq name) {
    if (name.size() < 2) return;
    String last = String.valueOf(name.apply(name.size() - 1));
    if (last.indexOf('/') >= 0) WarehouseGuard.check(last);
  }

  private static void checkSetting(scala.Product set) {
    scala.Option setting = (scala.Option) set.productElement(0);
    if (setting.isEmpty()) return;
    scala.Tuple2 pair = (scala.Tuple2) setting.get();
    if (((scala.Option) pair._2()).isDefined()) ClientSettings.check((String) pair._1(), (String) ((scala.Option) pair._2()).get());
  }

  /** RESET without a name would undo the session's restriction of files until its next statement. */
  private static void checkReset(scala.Option setting) {
    if (setting.isEmpty()) throw WarehouseGuard.refused("RESET without the name of a setting");
    ClientSettings.check((String) setting.get(), null);
  }

  private static void checkPartitions(scala.collection.Seq partitions) {
    for (int i = 0; i < partitions.size(); i++) {
      scala.Option location = (scala.Option) ((scala.Tuple2) partitions.apply(i))._2();
      if (location.isDefined()) WarehouseGuard.check((String) location.get());
    }
  }

  private void checkRelation(BaseRelation relation, int depth) {
    String kind = relation.getClass().getName();
    require(relation instanceof HadoopFsRelation || kind.startsWith("delta.DefaultSource$"), kind);
    if (relation instanceof HadoopFsRelation) checkElements((scala.Product) relation, depth);
  }

  private void checkTable(Table table, int depth) {
    String kind = table.getClass().getName();
    boolean isAllowed = table instanceof FileTable;
    for (int i = 0; i < TABLES.length; i++) isAllowed = isAllowed || kind.startsWith(TABLES[i]);
    require(isAllowed, kind);
    if (table instanceof DeltaTable) WarehouseGuard.check(((DeltaTable) table).path);
    else if (table instanceof scala.Product) checkElements((scala.Product) table, depth);
  }

  private void checkAll(java.util.List elements, String name, int depth) {
    for (Iterator remaining = elements.iterator(); remaining.hasNext();) check(remaining.next(), name, depth + 1);
  }

  private static void require(boolean isAllowed, String format) {
    if (!isAllowed) throw WarehouseGuard.refused("the format " + format);
  }

  /** Whether it is a part of a node whose elements are to be checked: not rows, sessions or types. */
  private static boolean isPartOfNode(Object element) {
    if (!(element instanceof scala.Product) || element instanceof org.apache.spark.sql.types.DataType) return false;
    String kind = element.getClass().getName();
    return kind.startsWith("scala.") || kind.startsWith("org.apache.spark.sql.catalyst.") || kind.startsWith("org.apache.spark.sql.execution.datasources.");
  }

  private static Set set(String[] words) {
    return new HashSet(Arrays.asList(words));
  }
}
