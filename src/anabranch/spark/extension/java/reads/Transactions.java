package anabranch;

import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.collection.immutable.Seq;

/**
 * Transactions of several statements: which sessions have one, by its key. As an optimizer rule it reports what queries read in one.
 * It runs once for a query and once for each of its subqueries, after Spark has pushed filters down to the tables.
 */
public final class Transactions extends org.apache.spark.sql.catalyst.rules.Rule {
  public static final String OPTION = "anabranch.transaction";
  private static final Map KEYS = Collections.synchronizedMap(new WeakHashMap());

  private final Object session;

  public Transactions(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "anabranch.Transactions";
  }

  public TreeNode apply(TreeNode plan) {
    if (KEYS.isEmpty() || !PythonEndpoint.isOpen()) return plan;
    Set keys = new LinkedHashSet();
    Seq leaves = ((LogicalPlan) plan).collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      String key = key(leaves.apply(i));
      if (key != null) keys.add(key);
    }
    Object[] all = keys.toArray();
    for (int i = 0; i < all.length; i++) PythonCallbacks.recordReads(session, (String) all[i], (LogicalPlan) plan);
    return plan;
  }

  public static void begin(Object session, String key) {
    KEYS.put(session, key);
  }

  public static void end(Object session) {
    KEYS.remove(session);
  }

  /** The plan, whose scans are now reads of a query in that transaction. */
  public static LogicalPlan marked(LogicalPlan plan, String key) {
    Seq leaves = plan.collectLeaves();
    for (int i = 0; i < leaves.size(); i++) {
      ListedFiles files = files(leaves.apply(i));
      if (files != null) files.transaction = key;
    }
    return plan;
  }

  /** The key of the transaction in which a query reads this leaf; null for other leaves, such as the target of an UPDATE. */
  public static String key(Object leaf) {
    ListedFiles files = files(leaf);
    return files == null ? null : files.transaction;
  }

  private static ListedFiles files(Object leaf) {
    if (!(leaf instanceof LogicalRelation) || !(((LogicalRelation) leaf).relation() instanceof HadoopFsRelation)) return null;
    Object location = ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location();
    return location instanceof ListedFiles ? (ListedFiles) location : null;
  }

  /**
   * A rule that Spark applies to a plan before it looks for cached rows. In a session with a transaction its tables become those
   * that the transaction reads, also in frames that are older than it, for which there may be cached rows of a committed version.
   */
  public static final class Normalize extends org.apache.spark.sql.catalyst.rules.Rule {
    private final Object session;

    public Normalize(Object session) {
      this.session = session;
    }

    public String ruleName() {
      return "anabranch.Transactions.Normalize";
    }

    public TreeNode apply(TreeNode plan) {
      String key = KEYS.isEmpty() ? null : (String) KEYS.get(session);
      return key == null ? plan : ((LogicalPlan) plan).transformUpWithSubqueries(new Within(session, key));
    }
  }

  /** Replaces tables of which Spark may have cached rows that are not the transaction's. */
  public static final class Within extends scala.runtime.AbstractPartialFunction {
    private final Object session;
    private final String key;

    public Within(Object session, String key) {
      this.session = session;
      this.key = key;
    }

    public boolean isDefinedAt(Object node) {
      DeltaTable table = DeltaRelations.unversioned(node);
      return table != null && table.version == null && !key.equals(table.options.get(OPTION));
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? DeltaRelations.inTransaction(session, (LogicalRelation) node, key) : otherwise.apply(node);
    }
  }
}
