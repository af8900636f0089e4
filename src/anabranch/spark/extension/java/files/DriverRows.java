package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import scala.collection.immutable.Nil$;

/** Rows of a plan that the driver has, or computes without a job: those of VALUES, and the one of SELECT without FROM. */
final class DriverRows {
  static final int ROWS_MAX = 10000;

  private DriverRows() {}

  /** The rows; null where a job must compute them, or they are many. */
  static List of(SparkPlan plan) {
    if (plan instanceof LocalTableScanExec) {
      LocalTableScanExec scan = (LocalTableScanExec) plan;
      if (scan.rows().size() > ROWS_MAX || scan.stream().isDefined()) return null;
      return new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(scan.rows()));
    }
    if (isStage(plan)) return of((SparkPlan) plan.children().apply(0));
    if (plan instanceof UnionExec) return union((UnionExec) plan);
    return plan instanceof ProjectExec ? oneRow((ProjectExec) plan) : null;
  }

  private static List union(UnionExec plan) {
    List rows = new ArrayList();
    for (int i = 0; i < plan.children().size(); i++) {
      List of = of((SparkPlan) plan.children().apply(i));
      if (of == null || rows.size() + of.size() > ROWS_MAX) return null;
      rows.addAll(of);
    }
    return rows;
  }

  private static List oneRow(ProjectExec plan) {
    SparkPlan below = plan.child();
    while (isStage(below)) below = (SparkPlan) below.children().apply(0);
    // Older releases scan an RDD of one row for it.
    if (!below.nodeName().contains("OneRowRelation") || !plan.subqueries().isEmpty()) return null;
    InterpretedMutableProjection projection = new InterpretedMutableProjection(plan.projectList(), Nil$.MODULE$);
    projection.initialize(0);
    List rows = new ArrayList();
    rows.add(projection.apply(InternalRow$.MODULE$.empty()));
    return rows;
  }

  /** Whether the operator only says how its child is executed. */
  private static boolean isStage(SparkPlan plan) {
    String name = plan.getClass().getSimpleName();
    return name.equals("WholeStageCodegenExec") || name.equals("InputAdapter") || name.equals("CoalesceExec");
  }
}
