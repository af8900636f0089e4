package delta.server;

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
 * Whatever a plan says of files: it is walked through all that its nodes are made of, whichever nodes a release of Spark has. What
 * is known to reach files in other ways is refused, and so is every format that is not known to be of files.
 */
final class PlanPaths {
  private static final Set REFUSED = set(new String[] {
      "AddJarsCommand", "AddFilesCommand", "AddArchivesCommand", "ScriptTransformation", "CreateFunction", "CreateFunctionCommand",
      "CallMethodViaReflection", "TryReflect", "HiveSimpleUDF", "HiveGenericUDF", "HiveGenericUDTF", "HiveUDAFFunction"});
  /** Elements of nodes that are a path or many. */
  private static final Set PATHS = set(new String[] {"path", "paths", "location", "userspecifiedcheckpointlocation"});
  private static final Set NAMES = set(new String[] {"multipartIdentifier", "nameParts"});
  /** Elements that name a format, and those that name a class of Hive's. */
  private static final Set FORMATS = set(new String[] {"provider", "classname", "format", "source"});
  private static final Set CLASSES = set(new String[] {"inputformat", "outputformat", "serde", "serdeclassname"});
  /** Elements that are values of partitions, by column. */
  private static final Set VALUES = set(new String[] {"partitionSpec", "partSpec", "partition", "staticPartitions", "spec"});
  private static final String[] TABLES = {
      "delta.", "org.apache.spark.sql.execution.streaming.", "org.apache.spark.sql.execution.datasources.noop.",
      "org.apache.spark.sql.connector.catalog.V1Table"};
  private static final int DEEP = 2000;

  private final IdentityHashMap seen = new IdentityHashMap();

  /** Throws where the plan names a file outside the warehouse, or what may reach one. */
  void check(LogicalPlan plan) {
    look(plan, "", 0);
  }

  private void look(Object thing, String name, int depth) {
    if (thing == null || depth > DEEP) return;
    if (thing instanceof String) lookAtText((String) thing, name);
    else if (thing instanceof java.net.URI) OnlyWarehouse.check(new Path((java.net.URI) thing).toString());
    else if (thing instanceof Path) OnlyWarehouse.check(thing.toString());
    else if (thing instanceof scala.Option) {
      if (((scala.Option) thing).isDefined()) look(((scala.Option) thing).get(), name, depth + 1);
    } else if (thing instanceof scala.collection.Map) lookAtOptions(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) thing), name, depth);
    else if (thing instanceof Map) lookAtOptions((Map) thing, name, depth);
    else if (thing instanceof LogicalPlan || thing instanceof Expression) lookAtNode((scala.Product) thing, depth);
    else if (thing instanceof scala.collection.Seq) lookAtAll(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) thing), name, depth);
    else if (thing instanceof BaseRelation) lookAtRelation((BaseRelation) thing, depth);
    else if (thing instanceof FileIndex) lookAtAll(scala.jdk.javaapi.CollectionConverters.asJava(((FileIndex) thing).rootPaths()), "paths", depth);
    else if (thing instanceof Table) lookAtTable((Table) thing, depth);
    else if (thing instanceof CreatableRelationProvider) known(thing.getClass().getName().startsWith("delta."), thing.getClass().getName());
    else if (isOfSpark(thing)) lookAtElements((scala.Product) thing, depth);
  }

  private void lookAtText(String text, String name) {
    String small = name.toLowerCase(Locale.ROOT);
    if (PATHS.contains(small)) OnlyWarehouse.check(text);
    if (FORMATS.contains(small)) FormatOptions.checkFormat(text);
    if (CLASSES.contains(small)) FormatOptions.checkClass(text);
    if (small.equals("storedas")) FormatOptions.checkStoredAs(text);
  }

  private void lookAtOptions(Map options, String name, int depth) {
    for (Iterator each = options.entrySet().iterator(); each.hasNext();) {
      Map.Entry option = (Map.Entry) each.next();
      if (!(option.getKey() instanceof String) || !(option.getValue() instanceof String)) look(option.getValue(), "", depth + 1);
      else if (name.equals("properties")) FormatOptions.checkProperty((String) option.getKey(), (String) option.getValue());
      else if (!VALUES.contains(name)) FormatOptions.check((String) option.getKey(), (String) option.getValue());
    }
  }

  private void lookAtNode(scala.Product node, int depth) {
    if (seen.put(node, Boolean.TRUE) != null) return;
    String kind = node.getClass().getSimpleName();
    boolean runs = node instanceof PythonFuncExpression || REFUSED.contains(kind);
    boolean isSparks = node.getClass().getName().startsWith("org.apache.spark.");
    if (runs || node instanceof LogicalPlan && isSparks && (kind.indexOf("Python") >= 0 || kind.indexOf("Pandas") >= 0 || kind.indexOf("InArrow") >= 0))
      throw OnlyWarehouse.refused(kind);
    // Rows, not paths; and Spark's own folder for a stream that was given none.
    if (kind.equals("LocalRelation") || kind.equals("LogicalRDD") || kind.equals("Literal") || kind.equals("AttributeReference")) return;
    if (kind.equals("SetCommand")) lookAtSetting(node);
    if (kind.equals("ResetCommand")) lookAtReset((scala.Option) node.productElement(0));
    if (kind.equals("AlterTableAddPartitionCommand")) lookAtPartitions((scala.collection.Seq) node.productElement(1));
    lookAtElements(node, depth);
  }

  private void lookAtElements(scala.Product node, int depth) {
    if (!(node instanceof LogicalPlan) && !(node instanceof Expression) && seen.put(node, Boolean.TRUE) != null) return;
    for (int i = 0; i < node.productArity(); i++) {
      Object element = node.productElement(i);
      String name = nameOf(node, i);
      if (node instanceof FormatClasses) FormatOptions.checkClass((String) element);
      else if (node instanceof CatalogStorageFormat && element instanceof scala.collection.Map) look(element, "options", depth + 1);
      else if (NAMES.contains(name) && element instanceof scala.collection.Seq) lookAtName((scala.collection.Seq) element);
      else if (!name.equals("rows")) look(element, name, depth + 1);
    }
  }

  private static String nameOf(scala.Product node, int place) {
    return node.getClass().getName().startsWith("scala.") ? "" : node.productElementName(place);
  }

  /** A name that ends in a path. Its format is looked at when Spark has made something of it. */
  private static void lookAtName(scala.collection.Seq name) {
    if (name.size() < 2) return;
    String last = String.valueOf(name.apply(name.size() - 1));
    if (last.indexOf('/') >= 0) OnlyWarehouse.check(last);
  }

  private static void lookAtSetting(scala.Product set) {
    scala.Option setting = (scala.Option) set.productElement(0);
    if (setting.isEmpty()) return;
    scala.Tuple2 pair = (scala.Tuple2) setting.get();
    if (((scala.Option) pair._2()).isDefined()) ClientSettings.check((String) pair._1(), (String) ((scala.Option) pair._2()).get());
  }

  /** Without a name it would take back what keeps the session to the warehouse, until its next statement. */
  private static void lookAtReset(scala.Option setting) {
    if (setting.isEmpty()) throw OnlyWarehouse.refused("RESET without the name of a setting");
    ClientSettings.check((String) setting.get(), null);
  }

  private static void lookAtPartitions(scala.collection.Seq partitions) {
    for (int i = 0; i < partitions.size(); i++) {
      scala.Option location = (scala.Option) ((scala.Tuple2) partitions.apply(i))._2();
      if (location.isDefined()) OnlyWarehouse.check((String) location.get());
    }
  }

  private void lookAtRelation(BaseRelation relation, int depth) {
    String kind = relation.getClass().getName();
    known(relation instanceof HadoopFsRelation || kind.startsWith("delta."), kind);
    if (relation instanceof HadoopFsRelation) lookAtElements((scala.Product) relation, depth);
  }

  private void lookAtTable(Table table, int depth) {
    String kind = table.getClass().getName();
    boolean isKnown = table instanceof FileTable;
    for (int i = 0; i < TABLES.length; i++) isKnown = isKnown || kind.startsWith(TABLES[i]);
    known(isKnown, kind);
    if (table instanceof delta.DeltaTable) OnlyWarehouse.check(((delta.DeltaTable) table).path);
    else if (table instanceof scala.Product) lookAtElements((scala.Product) table, depth);
  }

  private void lookAtAll(java.util.List things, String name, int depth) {
    for (Iterator each = things.iterator(); each.hasNext();) look(each.next(), name, depth + 1);
  }

  private static void known(boolean isKnown, String format) {
    if (!isKnown) throw OnlyWarehouse.refused("the format " + format);
  }

  /** Parts of nodes; no rows, no sessions, no types. */
  private static boolean isOfSpark(Object thing) {
    if (!(thing instanceof scala.Product) || thing instanceof org.apache.spark.sql.types.DataType) return false;
    String kind = thing.getClass().getName();
    return kind.startsWith("scala.") || kind.startsWith("org.apache.spark.sql.catalyst.") || kind.startsWith("org.apache.spark.sql.execution.datasources.");
  }

  private static Set set(String[] words) {
    return new HashSet(Arrays.asList(words));
  }
}
