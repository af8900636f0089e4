package anabranch;

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

/** The changes of an ALTER TABLE as one JSON: a list with an object for each change, whose kind is the name of Spark's class. */
public final class TableChanges {
  private TableChanges() {}

  public static String json(TableChange[] changes) {
    List descriptions = new ArrayList();
    for (int i = 0; i < changes.length; i++) descriptions.add(described(changes[i]));
    return Json.text(descriptions);
  }

  /** The same for a Seq. */
  public static String jsonOf(scala.collection.immutable.Seq changes) {
    TableChange[] all = new TableChange[changes.size()];
    for (int i = 0; i < all.length; i++) all[i] = (TableChange) changes.apply(i);
    return json(all);
  }

  /** The constraints as JSON, each as an object. */
  public static String constraints(Object[] constraints) {
    List descriptions = new ArrayList();
    for (int i = 0; i < constraints.length; i++) {
      Map description = new LinkedHashMap();
      describeConstraint(constraints[i], description);
      descriptions.add(description);
    }
    return Json.text(descriptions);
  }

  private static Map described(TableChange change) {
    Map description = new LinkedHashMap();
    description.put("kind", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange) {
      description.put("path", Arrays.asList(((TableChange.ColumnChange) change).fieldNames()));
      describeColumn(change, description);
    } else if (change instanceof TableChange.SetProperty) {
      description.put("name", ((TableChange.SetProperty) change).property());
      description.put("value", ((TableChange.SetProperty) change).value());
    } else if (change instanceof TableChange.RemoveProperty) {
      description.put("name", ((TableChange.RemoveProperty) change).property());
    } else if (change instanceof TableChange.ClusterBy) {
      description.put("columns", paths(((TableChange.ClusterBy) change).clusteringColumns()));
    } else {
      Object constraint = optionalValue(change, "constraint");
      if (constraint != null) {
        describeConstraint(constraint, description);
      } else {
        description.put("name", optionalValue(change, "name"));
        description.put("ifExists", optionalValue(change, "ifExists"));
      }
    }
    return description;
  }

  private static void describeColumn(TableChange change, Map description) {
    if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn added = (TableChange.AddColumn) change;
      description.put("type", json(added.dataType()));
      description.put("nullable", Boolean.valueOf(added.isNullable()));
      description.put("comment", added.comment());
      description.put("position", positionOf(added.position()));
      ColumnDefaultValue value = added.defaultValue();
      description.put("default", value == null ? null : optionalValue(value, "getSql"));
    } else if (change instanceof TableChange.UpdateColumnType) {
      description.put("type", json(((TableChange.UpdateColumnType) change).newDataType()));
    } else if (change instanceof TableChange.UpdateColumnNullability) {
      description.put("nullable", Boolean.valueOf(((TableChange.UpdateColumnNullability) change).nullable()));
    } else if (change instanceof TableChange.UpdateColumnComment) {
      description.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition) {
      description.put("position", positionOf(((TableChange.UpdateColumnPosition) change).position()));
    } else if (change instanceof TableChange.UpdateColumnDefaultValue) {
      description.put("default", ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue());
    } else if (change instanceof TableChange.RenameColumn) {
      description.put("newName", ((TableChange.RenameColumn) change).newName());
    } else if (change instanceof TableChange.DeleteColumn) {
      description.put("ifExists", ((TableChange.DeleteColumn) change).ifExists());
    }
  }

  /** By reflection: Spark 4.0 has no classes of constraints. */
  private static void describeConstraint(Object constraint, Map description) {
    description.put("name", optionalValue(constraint, "name"));
    description.put("ddl", optionalValue(constraint, "toDDL"));
    description.put("check", optionalValue(constraint, "predicateSql"));
  }

  /** The result of the method of that name without arguments; null if there is no such method. */
  public static Object optionalValue(Object thing, String name) {
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

  /** A type as a schema of one column, because a collation is stored beside the type. */
  private static String json(DataType type) {
    return new StructType().add("c", type).json();
  }

  private static List paths(NamedReference[] columns) {
    List paths = new ArrayList();
    for (int i = 0; i < columns.length; i++) paths.add(Arrays.asList(columns[i].fieldNames()));
    return paths;
  }

  /** Null without a position; else a list: empty for the first position, or the name of the column before. */
  private static List positionOf(TableChange.ColumnPosition position) {
    if (position == null) return null;
    List after = new ArrayList();
    if (position instanceof TableChange.After) after.add(((TableChange.After) position).column());
    return after;
  }
}
