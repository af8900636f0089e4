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
   * Spark's JSON, with every value: Spark leaves out those of an `InSet`, which is an `In` of many. Timestamps are in UTC, not in
   * the session's zone, in which a text may mean two moments, and to Python's zone data another one than to the JVM's.
   */
  public static String json(Expression condition) {
    SQLConf inUtc = SQLConf.get().clone();
    inUtc.setConfString("spark.sql.session.timeZone", "UTC");
    return (String) SQLConf.withExistingConf(inUtc, new Written((Expression) condition.transform(new AsIn())));
  }

  /** Writes an expression as Spark does, by the settings of the moment. */
  public static class Written extends scala.runtime.AbstractFunction0 {
    private final Expression expression;

    public Written(Expression expression) {
      this.expression = expression;
    }

    public Object apply() {
      return expression.toJSON();
    }
  }

  /** Makes an `In` of every `InSet`. */
  public static class AsIn extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof InSet;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Expression subject = ((InSet) node).child();
      List values = new ArrayList();
      for (scala.collection.Iterator each = ((InSet) node).hset().iterator(); each.hasNext();) {
        values.add(new Literal(each.next(), subject.dataType()));
      }
      return new org.apache.spark.sql.catalyst.expressions.In(subject, scala.jdk.javaapi.CollectionConverters.asScala(values).toList());
    }
  }
}
