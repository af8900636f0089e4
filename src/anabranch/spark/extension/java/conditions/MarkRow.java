package anabranch;

import static anabranch.IsLive.field;
import static anabranch.NumberExpressions.seq;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.QuaternaryExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A condition that marks each row for which it is evaluated, whether or not it is true: see `RowMarks`.
 *
 * Only the code that this generates marks rows, by classes that executors have. Where Spark sends them an expression instead, they get
 * the condition alone.
 */
public final class MarkRow extends QuaternaryExpression implements java.io.Serializable {
  private final Expression file;
  private final Expression group;
  private final Expression position;
  private final Expression condition;
  private final RowMarks marks;

  /**
   * @param file the id of the row's file; null for rows that are in none
   * @param group any small whole number, or null
   * @param position the position of the row in its file, from 0 on
   */
  public MarkRow(Expression file, Expression group, Expression position, Expression condition, RowMarks marks) {
    this.file = file;
    this.group = group;
    this.position = position;
    this.condition = condition;
    this.marks = marks;
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    ExprCode fileId = file.genCode(context);
    ExprCode number = group.genCode(context);
    ExprCode row = position.genCode(context);
    ExprCode isWanted = condition.genCode(context);
    String reports = context.addReferenceObj("rowMarks", marks.reports(), "org.apache.spark.util.CollectionAccumulator");
    String all = field(context, "java.util.HashMap", "marks");
    String partition = field(context, "int", "markedPartition");
    String last = field(context, "long", "markedKey");
    String count = field(context, "long[]", "markedCount");
    String positions = field(context, "org.roaringbitmap.RoaringBitmap", "markedPositions");
    String key = context.freshName("key");
    String entry = context.freshName("entry");
    // The partition of the plan's rows: a task may read several of them.
    context.addPartitionInitializationStatement(partition + " = partitionIndex;");
    String code = "\nif (" + all + " == null) {\n"
        + "  " + all + " = new java.util.HashMap();\n"
        + report(reports, partition, all)
        + "}\n"
        + "long " + key + " = " + RowMarks.key(fileId, number, row) + ";\n"
        + "if (" + count + " == null || " + last + " != " + key + ") {\n"
        + "  Object[] " + entry + " = (Object[]) " + all + ".get(Long.valueOf(" + key + "));\n"
        + "  if (" + entry + " == null) {\n"
        + "    " + entry + " = new Object[] {new long[1], new org.roaringbitmap.RoaringBitmap()};\n"
        + "    " + all + ".put(Long.valueOf(" + key + "), " + entry + ");\n"
        + "  }\n"
        + "  " + last + " = " + key + ";\n"
        + "  " + count + " = (long[]) " + entry + "[0];\n"
        + "  " + positions + " = (org.roaringbitmap.RoaringBitmap) " + entry + "[1];\n"
        + "}\n"
        + count + "[0]++;\n"
        + "if (!" + fileId.isNull() + ") " + positions + ".add((int) " + row.value() + ");\n";
    String value = "\nboolean " + result.value() + " = !" + isWanted.isNull() + " && " + isWanted.value() + ";\n";
    CodeBlock block = new CodeBlock(seq(new Object[] {"", "", "", code, value}),
        seq(new Object[] {fileId.code(), number.code(), row.code(), isWanted.code()}));
    return result.copy(block, FalseLiteral$.MODULE$, result.value());
  }

  /** Code that reports what is marked in a partition when the task ends: before, Spark may read reports while others are made. */
  private static String report(String reports, String partition, String marks) {
    return "  final org.apache.spark.util.CollectionAccumulator allReports = " + reports + ";\n"
        + "  final Object[] report = new Object[] {Integer.valueOf(" + partition + "), " + marks + "};\n"
        // The driver evaluates filters of rows that it has, without a task.
        + "  org.apache.spark.TaskContext context = org.apache.spark.TaskContext.get();\n"
        + "  if (context == null) allReports.add(report);\n"
        + "  else context.addTaskCompletionListener(new org.apache.spark.util.TaskCompletionListener() {\n"
        + "    public void onTaskCompletion(org.apache.spark.TaskContext task) {\n"
        + "      allReports.add(report);\n"
        + "    }\n"
        + "  });\n";
  }

  private Expression alone() {
    marks.noteUnmarked();
    return new Coalesce(seq(new Object[] {condition, Literal.FalseLiteral()}));
  }

  /** What is serialized: see `IsLive`. */
  protected Object writeReplace() {
    return alone();
  }

  public Object eval(InternalRow input) {
    return alone().eval(input);
  }

  /** Rows must not be left out before they are marked, nor be marked twice. */
  public boolean deterministic() {
    return false;
  }

  public Expression first() {
    return file;
  }

  public Expression second() {
    return group;
  }

  public Expression third() {
    return position;
  }

  public Expression fourth() {
    return condition;
  }

  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  public boolean nullable() {
    return false;
  }

  public TreeNode withNewChildrenInternal(TreeNode newFile, TreeNode newGroup, TreeNode newPosition, TreeNode newCondition) {
    return new MarkRow((Expression) newFile, (Expression) newGroup, (Expression) newPosition, (Expression) newCondition, marks);
  }

  // The constructor's arguments as a product: Spark copies and compares nodes by them.
  public int productArity() {
    return 5;
  }

  public Object productElement(int i) {
    return i == 0 ? (Object) file : i == 1 ? (Object) group : i == 2 ? (Object) position : i == 3 ? (Object) condition : (Object) marks;
  }

  public boolean canEqual(Object other) {
    return other instanceof MarkRow;
  }

  public boolean equals(Object other) {
    if (!(other instanceof MarkRow)) return false;
    MarkRow row = (MarkRow) other;
    return row.marks == marks && row.file.equals(file) && row.group.equals(group) && row.position.equals(position) && row.condition.equals(condition);
  }

  public int hashCode() {
    return 31 * position.hashCode() + condition.hashCode();
  }
}
