package anabranch;

import delta.DeltaCatalog;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import scala.collection.immutable.Seq;

/**
 * Adds the catalog to the names of paths that a plan reads. Spark takes names of two parts for files of a format, and says that it
 * cannot read them directly, if there is no table, or if it has not yet resolved the timestamp.
 */
public class ResolveTablePaths extends org.apache.spark.sql.catalyst.rules.Rule {
  /** On relations to which the rule has added the catalog. */
  private static final TreeNodeTag NAMED = new TreeNodeTag("anabranch.namedPath");

  /** Raises our error for a path without a table: Spark has looked for it in the catalog, and its own error does not say what is there. */
  static LogicalPlan checked(Object session, LogicalPlan plan) {
    return (LogicalPlan) plan.resolveOperatorsUp(new Check(session));
  }

  public String ruleName() {
    return "anabranch.ResolveTablePaths";
  }

  public TreeNode apply(TreeNode plan) {
    return PythonEndpoint.isOpen() ? ((LogicalPlan) plan).resolveOperatorsUp(new Names()) : plan;
  }

  /** Replaces each such name. */
  public static class Names extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return pathOf(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      UnresolvedRelation path = pathOf(node);
      if (path == null) return otherwise.apply(node);
      Seq name = (Seq) path.multipartIdentifier().prepended("spark_catalog");
      UnresolvedRelation named = new UnresolvedRelation(name, path.options(), path.isStreaming());
      named.copyTagsFrom(path);
      named.setTagValue(NAMED, Boolean.TRUE);
      if (node == path) return named;
      return new RelationTimeTravel(named, ((RelationTimeTravel) node).timestamp(), ((RelationTimeTravel) node).version());
    }

    private static UnresolvedRelation pathOf(Object node) {
      UnresolvedRelation named = relationOf(node);
      if (named == null) return null;
      Seq name = named.multipartIdentifier();
      return name.size() == 2 && DeltaCatalog.isPath((String) name.apply(0), (String) name.apply(1)) ? named : null;
    }
  }

  /** Checks each name that Spark has not resolved. */
  public static class Check extends scala.runtime.AbstractPartialFunction {
    private final Object session;

    public Check(Object session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      UnresolvedRelation named = relationOf(node);
      return named != null && named.getTagValue(NAMED).isDefined();
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      PythonCallbacks.checkTableByPath(session, (String) relationOf(node).multipartIdentifier().last());
      return node;
    }
  }

  private static UnresolvedRelation relationOf(Object node) {
    Object named = node instanceof RelationTimeTravel ? ((RelationTimeTravel) node).relation() : node;
    return named instanceof UnresolvedRelation ? (UnresolvedRelation) named : null;
  }
}
