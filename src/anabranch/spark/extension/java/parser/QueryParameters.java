package anabranch;

import org.apache.spark.sql.catalyst.analysis.NameParameterizedQuery;
import org.apache.spark.sql.catalyst.analysis.PosParameterizedQuery;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.Seq;

/** Values of parameters, which parsers get from Spark 4.1 on. */
public final class QueryParameters {
  private QueryParameters() {}

  /**
   * The plan with these values for its parameters, which the analyzer sets. Spark itself puts values into a text that it can parse,
   * and sets them in the plan otherwise.
   */
  public static LogicalPlan bound(LogicalPlan plan, Object context) {
    return sparkBinds() ? plan : left(plan, context);
  }

  /** The plan with these values for its parameters, even if Spark binds some, too. */
  public static LogicalPlan left(LogicalPlan plan, Object context) {
    Object named = TableChanges.optionalValue(context, "params");
    if (named instanceof Seq) return ((Seq) named).isEmpty() ? plan : new PosParameterizedQuery(plan, (Seq) named);
    if (named != null) {
      scala.collection.immutable.Map values = (scala.collection.immutable.Map) named;
      return values.isEmpty() ? plan : new NameParameterizedQuery(plan, values.keys().toSeq(), values.values().toSeq());
    }
    Seq values = (Seq) TableChanges.optionalValue(context, "args");
    Seq names = (Seq) TableChanges.optionalValue(context, "paramNames");
    return values.isEmpty() ? plan : mixed(plan, values, names);
  }

  /** Whether Spark wraps the plan of any parser, by a setting. */
  private static boolean sparkBinds() {
    return Boolean.TRUE.equals(TableChanges.optionalValue(org.apache.spark.sql.internal.SQLConf.get(), "legacyParameterSubstitutionConstantsOnly"));
  }

  /** The plan for EXECUTE IMMEDIATE, whose values may have names. Spark 4.0 has no such class. */
  private static LogicalPlan mixed(LogicalPlan plan, Seq values, Seq names) {
    try {
      Class query = Class.forName("org.apache.spark.sql.catalyst.analysis.GeneralParameterizedQuery");
      return (LogicalPlan) query.getConstructors()[0].newInstance(new Object[] {plan, values, names});
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }
}
