package delta.server;

import java.util.Arrays;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
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
  private static final Set OPTIONS = set(new String[] {
      "path", "location", "basepath", "checkpointlocation", "rowvalidationxsdpath", "avroschemaurl", "avro.schema.url", "sourcearchivedir"});
  private static final Set FORMATS = set(new String[] {
      "", "delta", "parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile", "hive", "rate", "rate-micro-batch", "memory",
      "console", "noop", "delta.defaultsource"});
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
    } else if (thing instanceof scala.collection.Map) lookAtOptions(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) thing), depth);
    else if (thing instanceof Map) lookAtOptions((Map) thing, depth);
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
    if (small.equals("provider") || small.equals("classname") || small.equals("format"))
      known(FORMATS.contains(text.toLowerCase(Locale.ROOT)), text);
  }

  private void lookAtOptions(Map options, int depth) {
    for (Iterator each = options.entrySet().iterator(); each.hasNext();) {
      Map.Entry option = (Map.Entry) each.next();
      if (!(option.getKey() instanceof String) || !(option.getValue() instanceof String)) {
        look(option.getValue(), "", depth + 1);
        continue;
      }
      checkOption((String) option.getKey(), (String) option.getValue());
    }
  }

  /** Throws where an option of a reader or a writer, or a property of a table, says where files are, and they are outside. */
  static void checkOption(String key, String value) {
    String small = key.toLowerCase(Locale.ROOT);
    if (small.startsWith("fs.") || small.startsWith("dfs.") || small.startsWith("hadoop.")) throw OnlyWarehouse.refused("the option " + key);
    if (OPTIONS.contains(small)) OnlyWarehouse.check(value);
    // Sources of Spark's second kind get their paths as a list in JSON.
    if (!small.equals("paths")) return;
    String[] parts = value.split("\"");
    for (int i = 1; i < parts.length; i += 2) OnlyWarehouse.check(parts[i]);
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
    if (kind.equals("AlterTableAddPartitionCommand")) lookAtPartitions((scala.collection.Seq) node.productElement(1));
    lookAtElements(node, depth);
  }

  private void lookAtElements(scala.Product node, int depth) {
    if (!(node instanceof LogicalPlan) && !(node instanceof Expression) && seen.put(node, Boolean.TRUE) != null) return;
    for (int i = 0; i < node.productArity(); i++) {
      Object element = node.productElement(i);
      String name = nameOf(node, i);
      if (NAMES.contains(name) && element instanceof scala.collection.Seq) lookAtName((scala.collection.Seq) element);
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
    if (((scala.Option) pair._2()).isDefined()) ClientSettings.check((String) pair._1());
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
