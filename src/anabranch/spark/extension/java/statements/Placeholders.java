package anabranch;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.InsertStarAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateStarAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * The parts of UPDATE and MERGE that Spark's analyzer must leave to us: stars, the keyword DEFAULT, names of columns that the table
 * does not have yet, and casts of values (Spark fills structs by position, Delta by name). Literals with a tag replace the first
 * three while Spark resolves everything else.
 */
public final class Placeholders {
  private static final TreeNodeTag MARK = new TreeNodeTag("anabranch.mark");
  private static final String STAR = "star", DEFAULT = "default", NAME = "name";

  private Placeholders() {}

  public static boolean isStar(Expression expression) {
    return is(STAR, expression);
  }

  public static boolean isDefault(Expression expression) {
    return is(DEFAULT, expression);
  }

  /** Whether it replaces the name of a column or field. */
  public static boolean isName(Expression expression) {
    return is(NAME, expression);
  }

  public static List names(Expression name) {
    return java.util.Arrays.asList(((UTF8String) ((Literal) name).value()).toString().split("\0", -1));
  }

  private static boolean is(String mark, Expression expression) {
    return expression instanceof Literal && expression.getTagValue(MARK).contains(mark);
  }

  private static Literal mark(String mark, String text) {
    Literal literal = new Literal(UTF8String.fromString(text), DataTypes.StringType);
    literal.setTagValue(MARK, mark);
    return literal;
  }

  /** A MERGE with placeholders; with `stars` also for stars, if these are the table's own columns. */
  public static LogicalPlan set(MergeIntoTable merge, boolean stars) {
    boolean evolves = merge.withSchemaEvolution()
        || Boolean.parseBoolean(SQLConf.get().getConfString("spark.databricks.delta.schema.autoMerge.enabled", "false"));
    return (LogicalPlan) merge.transformExpressions(new Setting(merge.targetTable(), merge.sourceTable(), stars, evolves));
  }

  /** Whether a value is the keyword DEFAULT. */
  public static boolean hasKeyword(UpdateTable update) {
    for (int i = 0; i < update.assignments().size(); i++) {
      if (isWord(((Assignment) update.assignments().apply(i)).value())) return true;
    }
    return false;
  }

  /** An UPDATE with placeholders for the keyword; `target` is its resolved table. */
  public static LogicalPlan setKeywords(UpdateTable update, LogicalPlan target) {
    return (LogicalPlan) update.transformExpressions(new Setting(target, target, false, false));
  }

  private static boolean isWord(Expression value) {
    if (!(value instanceof UnresolvedAttribute)) return false;
    Seq parts = ((UnresolvedAttribute) value).nameParts();
    return parts.size() == 1 && "default".equalsIgnoreCase((String) parts.apply(0));
  }

  /** The statement without the casts and checks that Spark has added to values. */
  public static LogicalPlan uncast(LogicalPlan statement) {
    return (LogicalPlan) statement.transformExpressions(new Uncast());
  }

  public static Expression always() {
    return Literal.TrueLiteral();
  }

  /** `UPDATE SET …`. The constructor has more arguments in newer versions. */
  public static Object updateAction(Option condition, Seq assignments) {
    java.lang.reflect.Constructor made = UpdateAction.class.getConstructors()[0];
    Object[] arguments = new Object[made.getParameterTypes().length];
    arguments[0] = condition;
    arguments[1] = assignments;
    for (int i = 2; i < arguments.length; i++) arguments[i] = Boolean.FALSE;
    try {
      return made.newInstance(arguments);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private static Seq star() {
    return (Seq) Nil$.MODULE$.$colon$colon(new Assignment(mark(STAR, "*"), Literal.TrueLiteral()));
  }

  /** Sets the placeholders. */
  public static class Setting extends scala.runtime.AbstractPartialFunction {
    private final LogicalPlan target;
    private final LogicalPlan source;
    private final boolean stars;
    private final boolean evolves;

    public Setting(LogicalPlan target, LogicalPlan source, boolean stars, boolean evolves) {
      this.target = target;
      this.source = source;
      this.stars = stars;
      this.evolves = evolves;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Assignment || stars && (node instanceof UpdateStarAction || node instanceof InsertStarAction);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      if (node instanceof UpdateStarAction) return updateAction(((UpdateStarAction) node).condition(), star());
      if (node instanceof InsertStarAction) return new InsertAction(((InsertStarAction) node).condition(), star());
      Assignment assignment = (Assignment) node;
      Expression key = evolves ? key(assignment.key()) : assignment.key();
      Expression value = isKeyword(assignment.value()) ? mark(DEFAULT, "DEFAULT") : assignment.value();
      return key == assignment.key() && value == assignment.value() ? assignment : new Assignment(key, value);
    }

    private boolean isKeyword(Expression value) {
      if (!isWord(value)) return false;
      Seq parts = ((UnresolvedAttribute) value).nameParts();
      return !knows(target, parts) && !knows(source, parts);
    }

    /** A placeholder for a name that the table lacks: the statement may add such a column. */
    private Expression key(Expression key) {
      if (!(key instanceof UnresolvedAttribute)) return key;
      Seq parts = ((UnresolvedAttribute) key).nameParts();
      if (knows(target, parts)) return key;
      List names = new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(parts));
      List alias = qualifier();
      for (int length = Math.min(alias.size(), names.size() - 1); length > 0; length--) {
        if (!same(alias.subList(alias.size() - length, alias.size()), names.subList(0, length))) continue;
        names = names.subList(length, names.size());
        break;
      }
      return mark(NAME, String.join("\0", names));
    }

    private List qualifier() {
      if (target.output().isEmpty()) return Collections.emptyList();
      return scala.jdk.javaapi.CollectionConverters.asJava(((Attribute) target.output().apply(0)).qualifier());
    }

    private static boolean same(List some, List others) {
      for (int i = 0; i < some.size(); i++) {
        Object same = SQLConf.get().resolver().apply(some.get(i), others.get(i));
        if (!Boolean.TRUE.equals(same)) return false;
      }
      return true;
    }

    private static boolean knows(LogicalPlan plan, Seq parts) {
      try {
        return plan.resolve(parts, SQLConf.get().resolver()).isDefined();
      } catch (Exception error) {
        return false;
      }
    }
  }

  /** Removes Spark's casts and checks from values. */
  public static class Uncast extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof Assignment;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Assignment assignment = (Assignment) node;
      Expression value = withoutCasts(assignment.value());
      return value == assignment.value() ? assignment : new Assignment(assignment.key(), value);
    }

    private static Expression withoutCasts(Expression value) {
      if (value instanceof StaticInvoke && ((StaticInvoke) value).functionName().endsWith("TypeWriteSideCheck")) {
        return withoutCasts((Expression) ((StaticInvoke) value).arguments().apply(0));
      }
      if (value instanceof AssertNotNull) return withoutCasts(((AssertNotNull) value).child());
      if (value instanceof Cast && value.getTagValue(Cast$.MODULE$.BY_TABLE_INSERTION()).isDefined()) {
        return withoutCasts(((Cast) value).child());
      }
      return value;
    }
  }
}
