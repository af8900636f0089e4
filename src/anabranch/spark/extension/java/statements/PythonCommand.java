package anabranch;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.logical.Statistics$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** A statement that Python runs: the analysed plan, or the text with its parameters. A command like Spark's own, so EXPLAIN does not run it. */
public class PythonCommand extends LogicalPlan implements org.apache.spark.sql.execution.command.LeafRunnableCommand {
  private final String node;
  private final Object statement;
  private final Seq output;

  /** @param node the name of the plan's node */
  public PythonCommand(String node, Object statement, Seq output) {
    this.node = node;
    this.statement = statement;
    this.output = output;
  }

  public Seq run(SparkSession session) {
    String[] description = JobDescriptions.ranOrLeft();
    try {
      return PythonCallbacks.runCommand(session, node, statement);
    } finally {
      JobDescriptions.restore(description);
    }
  }

  /** The statement in words, for Spark's UI: its text if it has one. */
  String text() {
    if (!(statement instanceof LogicalPlan)) {
      Object first = statement instanceof Seq && !((Seq) statement).isEmpty() ? ((Seq) statement).apply(0) : null;
      return first instanceof Literal ? String.valueOf(((Literal) first).value()) : null;
    }
    scala.Option text = ((LogicalPlan) statement).origin().sqlText();
    return text.isDefined() ? (String) text.get() : JobDescriptions.words((LogicalPlan) statement);
  }

  public Seq output() {
    return output;
  }

  // Methods of Scala's traits: if the superclass has one, too, Java takes that.
  public Seq children() {
    return (Seq) Nil$.MODULE$;
  }

  /** The statement, which EXPLAIN shows. */
  public Seq innerChildren() {
    return statement instanceof LogicalPlan ? (Seq) Nil$.MODULE$.$colon$colon(statement) : (Seq) Nil$.MODULE$;
  }

  public scala.collection.Iterator stringArgs() {
    return statement instanceof LogicalPlan ? scala.collection.Iterator$.MODULE$.empty() : productIterator();
  }

  public TreeNode mapChildren(scala.Function1 f) {
    return this;
  }

  public TreeNode withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) {
    return this;
  }

  public AttributeSet producedAttributes() {
    return outputSet();
  }

  public Statistics stats() {
    return Statistics$.MODULE$.DUMMY();
  }

  public scala.collection.immutable.Map metrics() {
    return scala.collection.immutable.Map$.MODULE$.empty();
  }

  public Seq nodePatterns() {
    return (Seq) Nil$.MODULE$.$colon$colon(TreePattern$.MODULE$.COMMAND());
  }

  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq patterns) {}

  // The constructor's arguments as a product: Spark copies nodes by them.
  public int productArity() {
    return 3;
  }

  public Object productElement(int i) {
    return i == 0 ? (Object) node : i == 1 ? statement : (Object) output;
  }

  public boolean canEqual(Object other) {
    return other == this;
  }

  public boolean equals(Object other) {
    return other == this;
  }

  public int hashCode() {
    return System.identityHashCode(this);
  }
}
