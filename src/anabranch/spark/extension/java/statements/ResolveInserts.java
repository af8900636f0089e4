package anabranch;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedInlineTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedSubqueryColumnAliases;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * A rule before resolution, for the keyword DEFAULT in the rows of an INSERT into a table of ours. A column that is DEFAULT in all
 * rows is marked as left to the table, which also works for generated and identity columns. If only some rows have it, the
 * default's expression, checked by Python, replaces it. Spark itself would insert NULL, since it does not have our tables' defaults.
 * REPLACE ON and REPLACE USING, which Spark refuses for tables of catalogs, become overwrites.
 */
public class ResolveInserts extends org.apache.spark.sql.catalyst.rules.Rule {
  public static final String LEFT_TO_TABLE = "anabranch.default";

  private final Object session;

  public ResolveInserts(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "anabranch.ResolveInserts";
  }

  public TreeNode apply(TreeNode plan) {
    if (!PythonEndpoint.isOpen()) return plan;
    return ((LogicalPlan) plan).resolveOperatorsUp(new Prepared(session, isWith(plan) ? (LogicalPlan) plan : null));
  }

  /** The table that a statement names; null if it is none of ours. */
  static DeltaTable tableOf(Object session, LogicalPlan named) {
    LogicalPlan analyzed = PlanFunctions.analyzed(session, named);
    return analyzed.resolved() && analyzed.collectLeaves().size() == 1 ? DeltaRelations.unversioned(analyzed.collectLeaves().apply(0)) : null;
  }

  /** Whether the plan has unresolved common table expressions. */
  private static boolean isWith(Object plan) {
    return ((LogicalPlan) plan).nodeName().equals("UnresolvedWith");
  }

  /** The plan with another child, instead of its last one: common table expressions come before that. */
  private static LogicalPlan over(LogicalPlan parent, LogicalPlan child) {
    return (LogicalPlan) parent.withNewChildren((Seq) ((Seq) parent.children().init()).appended(child));
  }

  /** Rewrites one INSERT. */
  public static class Prepared extends scala.runtime.AbstractPartialFunction {
    private final Object session;
    /** The plan with the common table expressions of the rows; null without. */
    private LogicalPlan with;
    private DeltaTable table;

    public Prepared(Object session, LogicalPlan with) {
      this.session = session;
      this.with = with;
    }

    public boolean isDefinedAt(Object node) {
      if (!(node instanceof InsertIntoStatement)) return false;
      InsertIntoStatement insert = (InsertIntoStatement) node;
      if (criteria(insert) == null && !hasDefaults(insert.query())) return false;
      table = tableOf(session, insert.table());
      return table != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      InsertIntoStatement insert = (InsertIntoStatement) node;
      LogicalPlan query = filled(insert.query(), columnsOf(insert), true);
      if (criteria(insert) != null) return Replacing.overwrite(insert, query, criteria(insert));
      return over(insert, query);
    }

    /** The clause REPLACE ON or REPLACE USING, from Spark 4.2 on; null without. */
    private static Object criteria(InsertIntoStatement insert) {
      Object option = TableChanges.optionalValue(insert, "replaceCriteriaOpt");
      Object criteria = option == null || ((scala.Option) option).isEmpty() ? null : ((scala.Option) option).get();
      // A condition on the table's rows alone arrives as an overwrite by expression.
      return criteria == null || criteria.getClass().getSimpleName().equals("InsertReplaceWhere") ? null : criteria;
    }

    /** The target columns of the rows' columns, in order. */
    private String[] columnsOf(InsertIntoStatement insert) {
      List columns = new ArrayList();
      Seq named = insert.userSpecifiedCols();
      Set fixed = new HashSet();
      java.util.Map partition = scala.jdk.javaapi.CollectionConverters.asJava(insert.partitionSpec());
      for (java.util.Iterator entries = partition.entrySet().iterator(); entries.hasNext();) {
        java.util.Map.Entry entry = (java.util.Map.Entry) entries.next();
        if (((scala.Option) entry.getValue()).isDefined()) fixed.add(((String) entry.getKey()).toLowerCase(Locale.ROOT));
      }
      StructField[] fields = table.schema.fields();
      for (int i = 0; i < named.size(); i++) columns.add(named.apply(i));
      for (int i = 0; i < fields.length && named.isEmpty(); i++) {
        if (!fixed.contains(fields[i].name().toLowerCase(Locale.ROOT))) columns.add(fields[i].name());
      }
      return (String[]) columns.toArray(new String[0]);
    }

    private static boolean passesRowsOn(Object plan) {
      String name = ((LogicalPlan) plan).nodeName();
      if (isWith(plan) || name.equals("WithCTE")) return true;
      return plan instanceof UnaryNode && (plan instanceof SubqueryAlias || name.equals("GlobalLimit") || name.equals("LocalLimit")
          || name.equals("Offset") || name.equals("Sort"));
    }

    private static boolean hasDefaults(LogicalPlan plan) {
      if (passesRowsOn(plan)) return hasDefaults((LogicalPlan) plan.children().last());
      if (plan instanceof UnresolvedInlineTable) {
        Seq rows = ((UnresolvedInlineTable) plan).rows();
        for (int i = 0; i < rows.size(); i++) if (anyDefault((Seq) rows.apply(i))) return true;
      }
      if (!(plan instanceof Project)) return false;
      return anyDefault(((Project) plan).projectList()) || hasDefaults(((Project) plan).child());
    }

    private static boolean anyDefault(Seq expressions) {
      for (int i = 0; i < expressions.size(); i++) if (isDefault(expressions.apply(i))) return true;
      return false;
    }

    private static boolean isDefault(Object expression) {
      if (!(expression instanceof UnresolvedAttribute)) return false;
      Seq parts = ((UnresolvedAttribute) expression).nameParts();
      return parts.size() == 1 && "default".equalsIgnoreCase((String) parts.apply(0));
    }

    private LogicalPlan filled(LogicalPlan plan, String[] columns, boolean isOutermost) {
      if (isWith(plan)) with = plan;
      if (passesRowsOn(plan)) return over(plan, filled((LogicalPlan) plan.children().last(), columns, isOutermost));
      if (plan instanceof UnresolvedInlineTable) return filledRows((UnresolvedInlineTable) plan, columns, isOutermost);
      if (!(plan instanceof Project)) return plan;
      Project project = (Project) plan;
      if (anyDefault(project.projectList()) && !hasColumnDefault(project.child())) {
        List list = new ArrayList();
        for (int i = 0; i < project.projectList().size(); i++) {
          Object expression = project.projectList().apply(i);
          list.add(isDefault(expression) && i < columns.length ? leftToTable(columns[i]) : expression);
        }
        return new Project(scala.jdk.javaapi.CollectionConverters.asScala(list).toList(), project.child());
      }
      return new Project(project.projectList(), filled(project.child(), columns, false));
    }

    /** Whether the rows have a column of that name, which goes before the keyword. */
    private boolean hasColumnDefault(LogicalPlan child) {
      LogicalPlan rows = PlanFunctions.analyzed(session, with == null ? child : over(with, child));
      for (int i = 0; rows.resolved() && i < rows.output().size(); i++) {
        String name = ((org.apache.spark.sql.catalyst.expressions.Attribute) rows.output().apply(i)).name();
        if ("default".equalsIgnoreCase(name)) return true;
      }
      return false;
    }

    private LogicalPlan filledRows(UnresolvedInlineTable values, String[] columns, boolean isOutermost) {
      int width = values.names().size();
      boolean[] left = new boolean[width];
      Expression[] defaults = new Expression[width];
      for (int column = 0; column < width && column < columns.length; column++) {
        int defaultCount = 0;
        for (int row = 0; row < values.rows().size(); row++) if (isDefault(at(values, row, column))) defaultCount++;
        left[column] = isOutermost && defaultCount > 0 && defaultCount == values.rows().size();
        if (left[column]) defaults[column] = Literal$.MODULE$.apply(null);
        else if (defaultCount > 0) defaults[column] = PythonCallbacks.columnDefault(session, table, columns[column]);
      }
      List rows = new ArrayList();
      for (int row = 0; row < values.rows().size(); row++) {
        List cells = new ArrayList();
        int cellCount = ((Seq) values.rows().apply(row)).size();
        for (int column = 0; column < cellCount; column++) {
          Object cell = at(values, row, column);
          cells.add(column < width && defaults[column] != null && isDefault(cell) ? defaults[column] : cell);
        }
        rows.add(scala.jdk.javaapi.CollectionConverters.asScala(cells).toList());
      }
      LogicalPlan table = new UnresolvedInlineTable(values.names(), scala.jdk.javaapi.CollectionConverters.asScala(rows).toList());
      List list = new ArrayList();
      boolean any = false;
      for (int column = 0; column < width; column++) {
        any = any || left[column];
        String name = (String) values.names().apply(column);
        list.add(left[column] ? leftToTable(name) : (Object) UnresolvedAttribute$.MODULE$.quoted(name));
      }
      return any ? new Project(scala.jdk.javaapi.CollectionConverters.asScala(list).toList(), table) : table;
    }

    private static Object at(UnresolvedInlineTable values, int row, int column) {
      Seq cells = (Seq) values.rows().apply(row);
      return column < cells.size() ? cells.apply(column) : null;
    }

    private static Alias leftToTable(String name) {
      Object mark = new MetadataBuilder().putBoolean(LEFT_TO_TABLE, true).build();
      return new Alias(Literal$.MODULE$.apply(null), name, NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$,
          scala.Option.apply(mark), (Seq) Nil$.MODULE$);
    }
  }

  /** The parsed condition of REPLACE ON, for an overwrite made from one; null for others. */
  public static Expression replaceOn(LogicalPlan overwrite) {
    scala.Option condition = overwrite.getTagValue(Replacing.ON);
    return condition.isEmpty() ? null : (Expression) condition.get();
  }

  /** REPLACE ON and REPLACE USING as overwrites, whose options say which rows are replaced. */
  static final class Replacing {
    static final TreeNodeTag ON = new TreeNodeTag("anabranch.replaceOn");

    private Replacing() {}

    /** The condition as the user wrote it. With parameters it is Spark's text: Spark has replaced them, and their positions are lost. */
    private static String text(Expression condition) {
      String written = condition.origin().context().fragment();
      boolean hasParameters = written.indexOf(':') >= 0 || written.indexOf('?') >= 0;
      return written.isEmpty() || hasParameters ? condition.sql() : written;
    }

    static LogicalPlan overwrite(InsertIntoStatement insert, LogicalPlan query, Object criteria) {
      java.util.Map options = new java.util.HashMap();
      Object columns = TableChanges.optionalValue(criteria, "cols");
      if (columns != null) {
        options.put("replaceUsing", ((Seq) columns).mkString(", "));
      } else {
        options.put("replaceOn", text((Expression) TableChanges.optionalValue(criteria, "cond")));
        scala.Option alias = (scala.Option) TableChanges.optionalValue(criteria, "tableAliasOpt");
        if (alias.isDefined()) options.put("targetAlias", alias.get());
      }
      if (PlanFunctions.evolves(insert)) options.put("mergeSchema", "true");
      boolean byName = insert.byName() || !insert.userSpecifiedCols().isEmpty();
      LogicalPlan rows = insert.userSpecifiedCols().isEmpty() ? query
          : new UnresolvedSubqueryColumnAliases(insert.userSpecifiedCols(), query);
      Object writeOptions = scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(options));
      LogicalPlan made = made(byName ? "byName" : "byPosition", new Object[] {insert.table(), rows, Literal$.MODULE$.apply(Boolean.TRUE), writeOptions});
      if (columns == null) made.setTagValue(ON, TableChanges.optionalValue(criteria, "cond"));
      return made;
    }

    /** An overwrite from its first arguments. The others, whose number differs by version, are false. */
    static LogicalPlan made(String how, Object[] first) {
      Object companion = OverwriteByExpression$.MODULE$;
      Method[] methods = companion.getClass().getMethods();
      for (int i = 0; i < methods.length; i++) {
        if (!methods[i].getName().equals(how)) continue;
        Object[] arguments = new Object[methods[i].getParameterTypes().length];
        for (int k = 0; k < arguments.length; k++) arguments[k] = k < first.length ? first[k] : Boolean.FALSE;
        try {
          return (LogicalPlan) methods[i].invoke(companion, arguments);
        } catch (ReflectiveOperationException error) {
          throw new IllegalStateException(error);
        }
      }
      throw new IllegalStateException("OverwriteByExpression." + how);
    }
  }
}
