package anabranch;

import static anabranch.NumberExpressions.number;
import static anabranch.NumberExpressions.readInt;
import static anabranch.NumberExpressions.seq;
import static anabranch.NumberExpressions.whole;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.BitwiseAnd;
import org.apache.spark.sql.catalyst.expressions.BitwiseOr;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.ShiftLeft;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.ShiftRightUnsigned;
import org.apache.spark.sql.catalyst.expressions.UnaryExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Whether a Bloom filter may be made of a hash, 64 bits that are not null, among others.
 *
 * The bits of a hash are `at`, `at + step`, `at + 2 * step` and so on, numbers of 28 bits, of which the lowest bits count. Bit i is that
 * of the big-endian word i >>> 5 with the value 1 << (i & 31). Spark's own expression makes an object for each row and divides for each
 * bit, which takes twice as long. Executors get the code that this generates; where Spark sends them an expression instead, they get
 * `ofSpark`, as for `IsLive`.
 */
public final class MayHaveKey extends UnaryExpression implements java.io.Serializable {
  /** Of 32 to 64 bits for each key, 30 % or less are set by so many of each: one of a million other hashes finds them all. */
  private static final int BITS_OF_HASH = 12;
  private static final long LOW = (1L << 28) - 1;

  private final Expression hash;
  private final byte[] bits;

  /** @param bits the filter: a power of two of them, and at most 2^28 */
  public MayHaveKey(Expression hash, byte[] bits) {
    this.hash = hash;
    this.bits = bits;
  }

  /** Add a hash to the filter. */
  static void add(byte[] bits, long hash) {
    long at = hash & LOW;
    long step = hash >>> 32 & LOW | 1;
    for (int i = 0; i < BITS_OF_HASH; i++) {
      int bit = (int) at & bits.length * 8 - 1;
      bits[bit >>> 3 ^ 3] |= 1 << (bit & 7);
      at += step;
    }
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode result) {
    ExprCode value = hash.genCode(context);
    String filter = context.freshName("keyFilter");
    String at = context.freshName("at");
    String step = context.freshName("step");
    String left = context.freshName("left");
    String bit = "(int) " + at + " & " + (bits.length * 8 - 1);
    String code = "\nbyte[] " + filter + " = " + context.addReferenceObj("keyFilter", bits, "byte[]") + ";\n"
        + "long " + at + " = " + value.value() + " & " + LOW + "L;\n"
        + "long " + step + " = " + value.value() + " >>> 32 & " + LOW + "L | 1L;\n"
        + "int " + left + " = " + BITS_OF_HASH + ";\n"
        + "while (" + left + " > 0 && (" + filter + "[(" + bit + ") >>> 3 ^ 3] >>> ((int) " + at + " & 7) & 1) != 0) {\n"
        + "  " + at + " += " + step + ";\n"
        + "  " + left + "--;\n"
        + "}\n"
        + "boolean " + result.value() + " = " + left + " == 0;\n";
    CodeBlock block = new CodeBlock(seq(new Object[] {"", code}), seq(new Object[] {value.code()}));
    return result.copy(block, FalseLiteral$.MODULE$, result.value());
  }

  /** The same of Spark's expressions, none of which overflows. */
  private Expression ofSpark() {
    Expression at = new BitwiseAnd(hash, number(LOW));
    Expression high = new BitwiseAnd(new ShiftRightUnsigned(hash, number(32)), number(LOW));
    Expression step = new BitwiseOr(high, number(1L));
    Literal filter = new Literal(bits, DataTypes.BinaryType);
    Expression all = isSet(filter, at);
    for (int i = 1; i < BITS_OF_HASH; i++) {
      Expression next = new Add(at, new Multiply(step, number((long) i)));
      all = new And(all, isSet(filter, next));
    }
    return all;
  }

  private Expression isSet(Literal filter, Expression at) {
    Expression bit = whole(new BitwiseAnd(at, number(bits.length * 8L - 1)));
    Expression offset = new ShiftLeft(new ShiftRight(bit, number(5)), number(2));
    Expression word = new ShiftRight(readInt(filter, offset), new BitwiseAnd(bit, number(31)));
    return new EqualTo(new BitwiseAnd(word, number(1)), number(1));
  }

  /** What is serialized: see `IsLive`. */
  protected Object writeReplace() {
    return ofSpark();
  }

  public Object eval(InternalRow input) {
    return ofSpark().eval(input);
  }

  public Expression child() {
    return hash;
  }

  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  public boolean nullable() {
    return false;
  }

  public TreeNode withNewChildInternal(TreeNode newHash) {
    return new MayHaveKey((Expression) newHash, bits);
  }

  // The constructor's arguments as a product: Spark copies and compares nodes by them. It neither compares nor prints the bits.
  public int productArity() {
    return 2;
  }

  public Object productElement(int i) {
    return i == 0 ? (Object) hash : (Object) bits;
  }

  public boolean canEqual(Object other) {
    return other instanceof MayHaveKey;
  }

  public boolean equals(Object other) {
    return other instanceof MayHaveKey && ((MayHaveKey) other).hash.equals(hash) && ((MayHaveKey) other).bits == bits;
  }

  public int hashCode() {
    return 31 * hash.hashCode() + System.identityHashCode(bits);
  }

  public String toString() {
    return "key filter(" + hash + ")";
  }

  public String sql() {
    return "key filter(" + hash.sql() + ")";
  }
}
