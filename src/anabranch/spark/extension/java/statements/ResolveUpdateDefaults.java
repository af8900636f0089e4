package anabranch;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * A rule before resolution, for the keyword DEFAULT in an UPDATE of a table of ours, which Python resolves. Spark would set NULL,
 * since it does not have our tables' defaults.
 */
public class ResolveUpdateDefaults extends org.apache.spark.sql.catalyst.rules.Rule {
  private final Object session;

  public ResolveUpdateDefaults(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "anabranch.ResolveUpdateDefaults";
  }

  public TreeNode apply(TreeNode plan) {
    if (!PythonEndpoint.isOpen() || !(plan instanceof UpdateTable) || !Placeholders.hasKeyword((UpdateTable) plan)) return plan;
    UpdateTable update = (UpdateTable) plan;
    LogicalPlan target = PlanFunctions.analyzed(session, update.table());
    return ReplaceTargetViews.reads(target) ? Placeholders.setKeywords(update, target) : update;
  }
}
