package delta;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;

/** Resolved conditions as text for Python. */
public final class Conditions {
  private Conditions() {}

  /** Spark's JSON, with every value: Spark leaves out those of an `InSet`, which is an `In` of many. */
  public static String json(Expression condition) {
    return ((Expression) condition.transform(new AsIn())).toJSON();
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
