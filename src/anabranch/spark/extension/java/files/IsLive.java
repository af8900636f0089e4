package anabranch;

import static anabranch.NumberExpressions.number;
import static anabranch.NumberExpressions.readInt;
import static anabranch.NumberExpressions.seq;
import static anabranch.NumberExpressions.whole;

import org.apache.hadoop.io.WritableComparator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.BinaryExpression;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Least;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Whether a row is not in the vector of its file, which `hidden_rows.encode` makes; null hides nothing.
 *
 * The code that this generates reads one word of the vector for 32 rows in turn. Executors get that code, not this class,
 * which they do not have; where Spark sends them an expression instead, they get `ofSpark`, which costs more for each row.
 */
public final class IsLive extends BinaryExpression implements java.io.Serializable {
  private static final int WORD_BITS = 5;
  private static final int WORD_MASK = 31;
  private static final String READ = "org.apache.hadoop.io.WritableComparator.readInt";
  private final Expression hidden;
  private final Expression rowIndex;
  private final Integer chunkBits;

  /** @param chunkBits the number of rows of a chunk, as a power of two */
  public IsLive(Expression hidden, Expression rowIndex, Integer chunkBits) {
    this.hidden = hidden;
    this.rowIndex = rowIndex;
    this.chunkBits = chunkBits;
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    ExprCode vector = hidden.genCode(context);
    ExprCode row = rowIndex.genCode(context);
    String bytes = field(context, "byte[]", "hiddenRows");
    String word = field(context, "int", "hiddenWord");
    String wordIndex = field(context, "long", "hiddenWordIndex");
    String start = context.freshName("chunkStart");
    String index = row.value() + " >>> " + WORD_BITS;
    String chunk = "(int) Math.min(" + row.value() + " >>> " + chunkBits + ", " + READ + "(" + bytes + ", 0))";
    String within = "(int) (" + row.value() + " & " + ((1 << chunkBits.intValue()) - 1) + ") >>> " + WORD_BITS;
    String code = "\nboolean " + result.value() + " = true;\n"
        + "if (!" + vector.isNull() + ") {\n"
        + "  if (" + bytes + " != " + vector.value() + " || " + wordIndex + " != (" + index + ")) {\n"
        + "    " + bytes + " = " + vector.value() + ";\n"
        + "    " + wordIndex + " = " + index + ";\n"
        // Rows after the last chunk use the entry after the last, which hides nothing.
        + "    int " + start + " = " + READ + "(" + bytes + ", " + chunk + " * 4 + 4);\n"
        + "    " + word + " = " + READ + "(" + bytes + ", " + start + " + (" + within + ") * 4);\n"
        + "  }\n"
        + "  " + result.value() + " = ((" + word + " >>> (int) (" + row.value() + " & " + WORD_MASK + ")) & 1) == 0;\n"
        + "}\n";
    CodeBlock block = new CodeBlock(seq(new Object[] {"", "", code}), seq(new Object[] {vector.code(), row.code()}));
    return result.copy(block, FalseLiteral$.MODULE$, result.value());
  }

  /** A field of the generated code, which each task has for itself. */
  static String field(CodegenContext context, String type, String name) {
    return context.addMutableState(type, name, context.addMutableState$default$3(), true, true);
  }

  /** The same of Spark's expressions. */
  private Expression ofSpark() {
    Expression chunk = whole(new ShiftRight(rowIndex, number(chunkBits.intValue())));
    Expression last = new Least(seq(new Object[] {chunk, read(number(0))}));
    Expression start = read(plus(times(last, 4), number(4)));
    Expression within = whole(new BitwiseAnd(rowIndex, number((1L << chunkBits.intValue()) - 1)));
    Expression word = read(plus(start, times(new ShiftRight(within, number(WORD_BITS)), 4)));
    Expression bit = whole(new BitwiseAnd(rowIndex, number((long) WORD_MASK)));
    Expression isShown = new BitwiseAnd(new ShiftRight(word, bit), number(1));
    return new org.apache.spark.sql.catalyst.expressions.Or(new org.apache.spark.sql.catalyst.expressions.IsNull(hidden),
        new org.apache.spark.sql.catalyst.expressions.EqualTo(isShown, number(0)));
  }

  private Expression read(Expression offset) {
    return readInt(hidden, offset);
  }

  private static Expression plus(Expression left, Expression right) {
    return new Add(left, right);
  }

  private static Expression times(Expression left, int right) {
    return new Multiply(left, number(right));
  }

  /**
   * What is serialized. Plans are, too, where generated code refers to one of their operators.
   *
   * Not private: of private methods Janino makes static ones, which Java's serialization does not call.
   */
  protected Object writeReplace() {
    return ofSpark();
  }

  public Object eval(InternalRow input) {
    return ofSpark().eval(input);
  }

  public Expression left() {
    return hidden;
  }

  public Expression right() {
    return rowIndex;
  }

  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  public boolean nullable() {
    return false;
  }

  public TreeNode withNewChildrenInternal(TreeNode newHidden, TreeNode newRowIndex) {
    return new IsLive((Expression) newHidden, (Expression) newRowIndex, chunkBits);
  }

  // The constructor's arguments as a product: Spark copies and compares nodes by them.
  public int productArity() {
    return 3;
  }

  public Object productElement(int i) {
    return i == 0 ? (Object) hidden : i == 1 ? (Object) rowIndex : (Object) chunkBits;
  }

  public boolean canEqual(Object other) {
    return other instanceof IsLive;
  }

  public boolean equals(Object other) {
    return other instanceof IsLive && ((IsLive) other).hidden.equals(hidden) && ((IsLive) other).rowIndex.equals(rowIndex)
        && ((IsLive) other).chunkBits.equals(chunkBits);
  }

  public int hashCode() {
    return 31 * hidden.hashCode() + rowIndex.hashCode();
  }
}
