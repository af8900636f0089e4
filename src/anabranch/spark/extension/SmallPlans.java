package delta;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.collection.immutable.Seq;

/** Which rows one task computes about as fast as several: those made of little data, by operators that cost little for each row. */
public final class SmallPlans {
  private static final long BYTES_MAX = 4L << 20;
  private static final Set CHEAP = new HashSet(Arrays.asList(new Object[] {"Project", "Filter", "Join", "Aggregate", "Distinct", "Union",
      "SubqueryAlias", "View", "LogicalRelation", "LocalRelation", "Range", "OneRowRelation", "InMemoryRelation", "ResolvedHint"}));

  private SmallPlans() {}

  /** Whether the frame is one of them. Functions of users may be slow for each row, and are left to as many tasks as there are. */
  public static boolean isSmall(org.apache.spark.sql.classic.Dataset frame) {
    return bytes(frame.queryExecution().analyzed()) <= BYTES_MAX;
  }

  /** The bytes that the plan reads; more than any limit for other plans. */
  private static long bytes(LogicalPlan plan) {
    if (!CHEAP.contains(plan.nodeName()) || callsUsers(plan) || !plan.subqueries().isEmpty()) return Long.MAX_VALUE;
    if (plan instanceof InMemoryRelation) return bytes(((InMemoryRelation) plan).cacheBuilder().logicalPlan());
    Seq children = plan.children();
    if (children.isEmpty()) return size(plan);
    long sum = 0;
    for (int i = 0; i < children.size() && sum <= BYTES_MAX; i++) {
      long below = bytes((LogicalPlan) children.apply(i));
      sum = below > BYTES_MAX ? Long.MAX_VALUE : sum + below;
    }
    return sum;
  }

  private static boolean callsUsers(LogicalPlan plan) {
    return plan.containsPattern(TreePattern$.MODULE$.SCALA_UDF()) || plan.containsPattern(TreePattern$.MODULE$.PYTHON_UDF());
  }

  private static long size(LogicalPlan leaf) {
    scala.math.BigInt size = leaf.stats().sizeInBytes();
    return size.isValidLong() ? size.toLong() : Long.MAX_VALUE;
  }
}
