package delta;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * A rule before resolution: the keyword DEFAULT in an UPDATE of a table of ours is left to us. Spark would put NULL, as our
 * tables tell it nothing of their defaults.
 */
public class Keywords extends org.apache.spark.sql.catalyst.rules.Rule {
  private final Object session;

  public Keywords(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "delta.Keywords";
  }

  public TreeNode apply(TreeNode plan) {
    if (!Python.isOpen() || !(plan instanceof UpdateTable) || !Marks.hasKeyword((UpdateTable) plan)) return plan;
    UpdateTable update = (UpdateTable) plan;
    LogicalPlan target = Plans.analyzed(session, update.table());
    return Views.reads(target) ? Marks.setKeywords(update, target) : update;
  }
}
