package anabranch;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** Replaces our tables in a plan, except the one that a statement changes, by leaves that Spark can read. */
public class ReplaceTableReads extends scala.runtime.AbstractPartialFunction {
  private final Object session;
  private final Object except;

  public ReplaceTableReads(Object session, Object except) {
    this.session = session;
    this.except = except;
  }

  public boolean isDefinedAt(Object node) {
    return node != except && (DeltaRelations.isTable(node) || DeltaChangelog.read(node) != null);
  }

  public Object applyOrElse(Object node, scala.Function1 otherwise) {
    if (!isDefinedAt(node)) return otherwise.apply(node);
    DeltaChangelog changelog = DeltaChangelog.read(node);
    if (changelog != null && node instanceof StreamingRelationV2) {
      StreamingRelationV2 stream = (StreamingRelationV2) node;
      LogicalPlan streamed = PythonCallbacks.streamOfChanges(session, changelog.table, changelog.context, stream.extraOptions());
      return same(PlanFunctions.under(streamed, stream.output()));
    }
    DataSourceV2Relation relation = (DataSourceV2Relation) node;
    if (changelog != null) return same(PlanFunctions.under(changes(changelog.feed), relation.output()));
    DeltaTable table = DeltaRelations.tableOf(relation);
    if (relation.identifier().isDefined() && !relation.options().isEmpty()) PythonCallbacks.checkReaderOptions(relation.options().asCaseSensitiveMap());
    if (table.declared != null) PythonCallbacks.checkDeclaredSchema(session, table, table.declared);
    if (table.isChanges()) return same(PlanFunctions.under(changes(table), relation.output()));
    DeltaTable feed = readsChanges(relation) ? PythonCallbacks.changeFeed(session, table, relation.options()) : null;
    if (feed == null) return same(DeltaRelations.read(session, relation));
    LogicalPlan rows = changes(feed);
    return new scala.Tuple2(rows, relation.output().zip((Seq) rows.output().take(relation.output().size())));
  }

  private LogicalPlan changes(DeltaTable table) {
    return PythonCallbacks.rowsOfChanges(session, table);
  }

  /** The plan, whose columns have the ids of those that it replaces. */
  private static Object same(LogicalPlan now) {
    return new scala.Tuple2(now, Nil$.MODULE$);
  }

  /** `spark.read.option("readChangeFeed", …).table(…)`: Spark passes the options on with the relation. */
  private static boolean readsChanges(DataSourceV2Relation relation) {
    return relation.options().containsKey("readChangeFeed") || relation.options().containsKey("readChangeData");
  }
}
