package delta;

import org.apache.spark.sql.catalyst.analysis.NameParameterizedQuery;
import org.apache.spark.sql.catalyst.analysis.PosParameterizedQuery;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.Seq;

/** Values of parameters, as parsers are given them from Spark 4.1 on. */
public final class Parameters {
  private Parameters() {}

  /**
   * The plan with these values for its parameters, which the analyzer puts in. Spark itself puts them into the text, where
   * it can read it; what it cannot read is left to its older way.
   */
  public static LogicalPlan bound(LogicalPlan plan, Object context) {
    return sparkBinds() ? plan : left(plan, context);
  }

  /** The plan with these values for its parameters, whoever else binds them. */
  public static LogicalPlan left(LogicalPlan plan, Object context) {
    Object named = TableChanges.told(context, "params");
    if (named instanceof Seq) return ((Seq) named).isEmpty() ? plan : new PosParameterizedQuery(plan, (Seq) named);
    if (named != null) {
      scala.collection.immutable.Map values = (scala.collection.immutable.Map) named;
      return values.isEmpty() ? plan : new NameParameterizedQuery(plan, values.keys().toSeq(), values.values().toSeq());
    }
    Seq values = (Seq) TableChanges.told(context, "args");
    Seq names = (Seq) TableChanges.told(context, "paramNames");
    return values.isEmpty() ? plan : mixed(plan, values, names);
  }

  /** With this setting Spark wraps whatever a parser gives. */
  private static boolean sparkBinds() {
    return Boolean.TRUE.equals(TableChanges.told(org.apache.spark.sql.internal.SQLConf.get(), "legacyParameterSubstitutionConstantsOnly"));
  }

  /** Of EXECUTE IMMEDIATE, whose values have names or have none. Spark 4.0 has no such class. */
  private static LogicalPlan mixed(LogicalPlan plan, Seq values, Seq names) {
    try {
      Class query = Class.forName("org.apache.spark.sql.catalyst.analysis.GeneralParameterizedQuery");
      return (LogicalPlan) query.getConstructors()[0].newInstance(new Object[] {plan, values, names});
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }
}
