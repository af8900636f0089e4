package delta;

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
 * A rule of the batch before resolution. The keyword DEFAULT in the rows of an INSERT into a table of ours: a column that is
 * DEFAULT in all rows is marked as left to the table, so that generated and identity columns have theirs, too; where only some
 * rows have it, the default's expression, vetted by Python, takes its place. Spark itself would put NULL, as our tables tell it
 * nothing of their defaults. REPLACE ON and REPLACE USING, which Spark refuses for tables of catalogs, become overwrites.
 */
public class Inserts extends org.apache.spark.sql.catalyst.rules.Rule {
  public static final String LEFT_TO_TABLE = "anabranch.default";

  private final Object session;

  public Inserts(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "delta.Inserts";
  }

  public TreeNode apply(TreeNode plan) {
    if (!Python.isOpen()) return plan;
    return ((LogicalPlan) plan).resolveOperatorsUp(new Prepared(session, isWith(plan) ? (LogicalPlan) plan : null));
  }

  /** The table by what a statement calls it; null where it is none of ours. */
  static DeltaTable tableOf(Object session, LogicalPlan named) {
    LogicalPlan found = Plans.analyzed(session, named);
    return found.resolved() && found.collectLeaves().size() == 1 ? Leaves.unversioned(found.collectLeaves().apply(0)) : null;
  }

  /** Whether common table expressions are still to be put in their places. */
  private static boolean isWith(Object plan) {
    return ((LogicalPlan) plan).nodeName().equals("UnresolvedWith");
  }

  /** The plan with another child, its last where there are several: before it stand common table expressions. */
  private static LogicalPlan over(LogicalPlan parent, LogicalPlan child) {
    return (LogicalPlan) parent.withNewChildren((Seq) ((Seq) parent.children().init()).appended(child));
  }

  /** One INSERT. */
  public static class Prepared extends scala.runtime.AbstractPartialFunction {
    private final Object session;
    /** What defines the common table expressions of the rows; null without. */
    private LogicalPlan with;
    private DeltaTable table;

    public Prepared(Object session, LogicalPlan with) {
      this.session = session;
      this.with = with;
    }

    public boolean isDefinedAt(Object node) {
      if (!(node instanceof InsertIntoStatement)) return false;
      InsertIntoStatement insert = (InsertIntoStatement) node;
      if (criteria(insert) == null && !asksForDefaults(insert.query())) return false;
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

    /** From Spark 4.2 on: what REPLACE ON or REPLACE USING says; null without. */
    private static Object criteria(InsertIntoStatement insert) {
      Object told = TableChanges.told(insert, "replaceCriteriaOpt");
      Object found = told == null || ((scala.Option) told).isEmpty() ? null : ((scala.Option) told).get();
      // A condition on the table's rows alone arrives as an overwrite by expression.
      return found == null || found.getClass().getSimpleName().equals("InsertReplaceWhere") ? null : found;
    }

    /** The columns that the rows' columns go to, in order. */
    private String[] columnsOf(InsertIntoStatement insert) {
      List found = new ArrayList();
      Seq named = insert.userSpecifiedCols();
      Set fixed = new HashSet();
      java.util.Map partition = scala.jdk.javaapi.CollectionConverters.asJava(insert.partitionSpec());
      for (java.util.Iterator each = partition.entrySet().iterator(); each.hasNext();) {
        java.util.Map.Entry entry = (java.util.Map.Entry) each.next();
        if (((scala.Option) entry.getValue()).isDefined()) fixed.add(((String) entry.getKey()).toLowerCase(Locale.ROOT));
      }
      StructField[] fields = table.schema.fields();
      for (int i = 0; i < named.size(); i++) found.add(named.apply(i));
      for (int i = 0; i < fields.length && named.isEmpty(); i++) {
        if (!fixed.contains(fields[i].name().toLowerCase(Locale.ROOT))) found.add(fields[i].name());
      }
      return (String[]) found.toArray(new String[0]);
    }

    private static boolean passesRowsOn(Object plan) {
      String name = ((LogicalPlan) plan).nodeName();
      if (isWith(plan) || name.equals("WithCTE")) return true;
      return plan instanceof UnaryNode && (plan instanceof SubqueryAlias || name.equals("GlobalLimit") || name.equals("LocalLimit")
          || name.equals("Offset") || name.equals("Sort"));
    }

    private static boolean asksForDefaults(LogicalPlan plan) {
      if (passesRowsOn(plan)) return asksForDefaults((LogicalPlan) plan.children().last());
      if (plan instanceof UnresolvedInlineTable) {
        Seq rows = ((UnresolvedInlineTable) plan).rows();
        for (int i = 0; i < rows.size(); i++) if (anyDefault((Seq) rows.apply(i))) return true;
      }
      if (!(plan instanceof Project)) return false;
      return anyDefault(((Project) plan).projectList()) || asksForDefaults(((Project) plan).child());
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
          Object each = project.projectList().apply(i);
          list.add(isDefault(each) && i < columns.length ? leftToTable(columns[i]) : each);
        }
        return new Project(scala.jdk.javaapi.CollectionConverters.asScala(list).toList(), project.child());
      }
      return new Project(project.projectList(), filled(project.child(), columns, false));
    }

    /** A column of the rows goes before the keyword. */
    private boolean hasColumnDefault(LogicalPlan child) {
      LogicalPlan rows = Plans.analyzed(session, with == null ? child : over(with, child));
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
        int asked = 0;
        for (int row = 0; row < values.rows().size(); row++) if (isDefault(at(values, row, column))) asked++;
        left[column] = isOutermost && asked > 0 && asked == values.rows().size();
        if (left[column]) defaults[column] = Literal$.MODULE$.apply(null);
        else if (asked > 0) defaults[column] = (Expression) Python.ask("default", new Object[] {session, table, columns[column]});
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

  /** The condition of REPLACE ON, as Spark has read it, of an overwrite that was one; null of others. */
  public static Expression replaceOn(LogicalPlan overwrite) {
    scala.Option condition = overwrite.getTagValue(Replacing.ON);
    return condition.isEmpty() ? null : (Expression) condition.get();
  }

  /** REPLACE ON and REPLACE USING as overwrites whose options say which rows go. */
  static final class Replacing {
    static final TreeNodeTag ON = new TreeNodeTag("delta.replaceOn");

    private Replacing() {}

    /** As it was written, but for parameters: Spark has put values in their places, and knows no more where they end. */
    private static String text(Expression condition) {
      String written = condition.origin().context().fragment();
      boolean hasParameters = written.indexOf(':') >= 0 || written.indexOf('?') >= 0;
      return written.isEmpty() || hasParameters ? condition.sql() : written;
    }

    static LogicalPlan overwrite(InsertIntoStatement insert, LogicalPlan query, Object criteria) {
      java.util.Map options = new java.util.HashMap();
      Object columns = TableChanges.told(criteria, "cols");
      if (columns != null) {
        options.put("replaceUsing", ((Seq) columns).mkString(", "));
      } else {
        options.put("replaceOn", text((Expression) TableChanges.told(criteria, "cond")));
        scala.Option alias = (scala.Option) TableChanges.told(criteria, "tableAliasOpt");
        if (alias.isDefined()) options.put("targetAlias", alias.get());
      }
      if (Plans.evolves(insert)) options.put("mergeSchema", "true");
      boolean byName = insert.byName() || !insert.userSpecifiedCols().isEmpty();
      LogicalPlan rows = insert.userSpecifiedCols().isEmpty() ? query
          : new UnresolvedSubqueryColumnAliases(insert.userSpecifiedCols(), query);
      Object told = scala.collection.immutable.Map$.MODULE$.from(scala.jdk.javaapi.CollectionConverters.asScala(options));
      LogicalPlan made = made(byName ? "byName" : "byPosition", new Object[] {insert.table(), rows, Literal$.MODULE$.apply(Boolean.TRUE), told});
      if (columns == null) made.setTagValue(ON, TableChanges.told(criteria, "cond"));
      return made;
    }

    /** Further arguments, whose number grows from version to version, are false. */
    private static LogicalPlan made(String how, Object[] given) {
      Object companion = OverwriteByExpression$.MODULE$;
      Method[] methods = companion.getClass().getMethods();
      for (int i = 0; i < methods.length; i++) {
        if (!methods[i].getName().equals(how)) continue;
        Object[] arguments = new Object[methods[i].getParameterTypes().length];
        for (int k = 0; k < arguments.length; k++) arguments[k] = k < given.length ? given[k] : Boolean.FALSE;
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
