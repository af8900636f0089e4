package delta;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.internal.SQLConf;

/** Resolved conditions as text for Python. */
public final class Conditions {
  private Conditions() {}

  /**
   * Spark's JSON with all values: Spark leaves out those of an `InSet`, an `In` of many values. Timestamps are in UTC. In the session's
   * zone a text may be ambiguous, and Python's zone data may differ from the JVM's.
   */
  public static String json(Expression condition) {
    SQLConf inUtc = SQLConf.get().clone();
    inUtc.setConfString("spark.sql.session.timeZone", "UTC");
    return (String) SQLConf.withExistingConf(inUtc, new Written((Expression) condition.transform(new AsIn())));
  }

  /** Writes an expression as JSON, with the current settings. */
  public static class Written extends scala.runtime.AbstractFunction0 {
    private final Expression expression;

    public Written(Expression expression) {
      this.expression = expression;
    }

    public Object apply() {
      return expression.toJSON();
    }
  }

  /** Replaces every `InSet` by an `In`. */
  public static class AsIn extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof InSet;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Expression subject = ((InSet) node).child();
      List values = new ArrayList();
      for (scala.collection.Iterator items = ((InSet) node).hset().iterator(); items.hasNext();) {
        values.add(new Literal(items.next(), subject.dataType()));
      }
      return new org.apache.spark.sql.catalyst.expressions.In(subject, scala.jdk.javaapi.CollectionConverters.asScala(values).toList());
    }
  }
}
