package delta;

import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.collection.immutable.Seq;

/**
 * Adds the catalog to the names of paths that a plan reads. Spark takes names of two parts for files of a format, and says that it
 * cannot read them directly, if there is no table, or if it has not yet resolved the timestamp.
 */
public class ResolveTablePaths extends org.apache.spark.sql.catalyst.rules.Rule {
  private final Object session;

  public ResolveTablePaths(Object session) {
    this.session = session;
  }

  public String ruleName() {
    return "delta.ResolveTablePaths";
  }

  public TreeNode apply(TreeNode plan) {
    return Python.isOpen() ? ((LogicalPlan) plan).resolveOperatorsUp(new Check(session)) : plan;
  }

  /** Replaces each such name. */
  public static class Check extends scala.runtime.AbstractPartialFunction {
    private final Object session;

    public Check(Object session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      return pathOf(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      UnresolvedRelation path = pathOf(node);
      if (path == null) return otherwise.apply(node);
      PythonCallbacks.checkTableByPath(session, (String) path.multipartIdentifier().apply(1));
      Seq name = (Seq) path.multipartIdentifier().prepended("spark_catalog");
      UnresolvedRelation named = new UnresolvedRelation(name, path.options(), path.isStreaming());
      named.copyTagsFrom(path);
      if (node == path) return named;
      return new RelationTimeTravel(named, ((RelationTimeTravel) node).timestamp(), ((RelationTimeTravel) node).version());
    }

    private static UnresolvedRelation pathOf(Object node) {
      Object named = node instanceof RelationTimeTravel ? ((RelationTimeTravel) node).relation() : node;
      if (!(named instanceof UnresolvedRelation)) return null;
      Seq name = ((UnresolvedRelation) named).multipartIdentifier();
      boolean isPath = name.size() == 2 && DeltaCatalog.isPath((String) name.apply(0), (String) name.apply(1));
      return isPath ? (UnresolvedRelation) named : null;
    }
  }
}
