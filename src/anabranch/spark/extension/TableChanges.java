package delta;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** What ALTER TABLE says, as one JSON: a list with an object for each change, its kind the name of Spark's class. */
public final class TableChanges {
  private TableChanges() {}

  public static String json(TableChange[] changes) {
    List found = new ArrayList();
    for (int i = 0; i < changes.length; i++) found.add(described(changes[i]));
    return Json.text(found);
  }

  /** The same of a Seq. */
  public static String jsonOf(scala.collection.immutable.Seq changes) {
    TableChange[] all = new TableChange[changes.size()];
    for (int i = 0; i < all.length; i++) all[i] = (TableChange) changes.apply(i);
    return json(all);
  }

  /** Constraints, each as an object. */
  public static String constraints(Object[] constraints) {
    List found = new ArrayList();
    for (int i = 0; i < constraints.length; i++) {
      Map facts = new LinkedHashMap();
      describeConstraint(constraints[i], facts);
      found.add(facts);
    }
    return Json.text(found);
  }

  private static Map described(TableChange change) {
    Map facts = new LinkedHashMap();
    facts.put("kind", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange) {
      facts.put("path", Arrays.asList(((TableChange.ColumnChange) change).fieldNames()));
      describeColumn(change, facts);
    } else if (change instanceof TableChange.SetProperty) {
      facts.put("name", ((TableChange.SetProperty) change).property());
      facts.put("value", ((TableChange.SetProperty) change).value());
    } else if (change instanceof TableChange.RemoveProperty) {
      facts.put("name", ((TableChange.RemoveProperty) change).property());
    } else if (change instanceof TableChange.ClusterBy) {
      facts.put("columns", paths(((TableChange.ClusterBy) change).clusteringColumns()));
    } else {
      Object constraint = told(change, "constraint");
      if (constraint != null) {
        describeConstraint(constraint, facts);
      } else {
        facts.put("name", told(change, "name"));
        facts.put("ifExists", told(change, "ifExists"));
      }
    }
    return facts;
  }

  private static void describeColumn(TableChange change, Map facts) {
    if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn added = (TableChange.AddColumn) change;
      facts.put("type", json(added.dataType()));
      facts.put("nullable", Boolean.valueOf(added.isNullable()));
      facts.put("comment", added.comment());
      facts.put("position", place(added.position()));
      ColumnDefaultValue value = added.defaultValue();
      facts.put("default", value == null ? null : told(value, "getSql"));
    } else if (change instanceof TableChange.UpdateColumnType) {
      facts.put("type", json(((TableChange.UpdateColumnType) change).newDataType()));
    } else if (change instanceof TableChange.UpdateColumnNullability) {
      facts.put("nullable", Boolean.valueOf(((TableChange.UpdateColumnNullability) change).nullable()));
    } else if (change instanceof TableChange.UpdateColumnComment) {
      facts.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition) {
      facts.put("position", place(((TableChange.UpdateColumnPosition) change).position()));
    } else if (change instanceof TableChange.UpdateColumnDefaultValue) {
      facts.put("default", ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue());
    } else if (change instanceof TableChange.RenameColumn) {
      facts.put("newName", ((TableChange.RenameColumn) change).newName());
    } else if (change instanceof TableChange.DeleteColumn) {
      facts.put("ifExists", ((TableChange.DeleteColumn) change).ifExists());
    }
  }

  /** Constraints are no classes of Spark 4.0. */
  private static void describeConstraint(Object constraint, Map facts) {
    facts.put("name", told(constraint, "name"));
    facts.put("ddl", told(constraint, "toDDL"));
    facts.put("check", told(constraint, "predicateSql"));
  }

  /** What the method of that name says; null where there is none. */
  static Object told(Object thing, String name) {
    Method[] methods = thing.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (!methods[i].getName().equals(name) || methods[i].getParameterTypes().length > 0) continue;
      methods[i].setAccessible(true);
      try {
        return methods[i].invoke(thing, new Object[0]);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    }
    return null;
  }

  /** A type within a schema of one column, because a collation is kept beside the type. */
  private static String json(DataType type) {
    return new StructType().add("c", type).json();
  }

  private static List paths(NamedReference[] columns) {
    List found = new ArrayList();
    for (int i = 0; i < columns.length; i++) found.add(Arrays.asList(columns[i].fieldNames()));
    return found;
  }

  /** Null, or a list: empty for the first place, else the name of the column before it. */
  private static List place(TableChange.ColumnPosition position) {
    if (position == null) return null;
    List found = new ArrayList();
    if (position instanceof TableChange.After) found.add(((TableChange.After) position).column());
    return found;
  }
}
