package anabranch;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.regex.Pattern;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.VariableSubstitution;

/** Our parser, for the few statements that Spark's does not know, before Spark's. A proxy, since the interface has more methods in newer versions. */
public class DeltaParser implements InvocationHandler {
  public final Object spark;
  private final Pattern ours;
  /** A session whose rules have to be ordered before its first statement; null if they are. Its analyzer does not exist before this parser. */
  private org.apache.spark.sql.classic.SparkSession unordered;

  public DeltaParser(Object spark, String ours, org.apache.spark.sql.classic.SparkSession unordered) {
    this.spark = spark;
    this.unordered = unordered;
    this.ours = Pattern.compile(ours, 34);  // CASE_INSENSITIVE | DOTALL
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    JarsLoader.leaveHives();
    if (unordered != null) {
      org.apache.spark.sql.classic.SparkSession session = unordered;
      unordered = null;
      Sessions.orderRules(session);
    }
    if (PythonEndpoint.isOpen() && method.getName().startsWith("parsePlan") && ours.matcher((String) arguments[0]).find()) {
      String text = new VariableSubstitution().substitute((String) arguments[0]);
      Object session = org.apache.spark.sql.classic.SparkSession.active();
      LogicalPlan plan = PythonCallbacks.parseOwnStatement(session, text);
      if (plan != null) return arguments.length > 1 ? QueryParameters.bound(plan, arguments[1]) : plan;
    }
    try {
      return HiveListings.inHiveForm(method.invoke(spark, arguments));
    } catch (InvocationTargetException error) {
      // A proxy cannot throw Spark's error about values, such as a missing one. The analyzer raises it for parameters that are left.
      if (error.getCause() instanceof AnalysisException && !(error.getCause() instanceof ParseException) && arguments.length > 1)
        return QueryParameters.left(((ParserInterface) proxy).parsePlan((String) arguments[0]), arguments[1]);
      String quoted = error.getCause() instanceof ParseException ? quoted(arguments) : null;
      if (quoted == null) throw error.getCause();
      Object[] again = java.util.Arrays.copyOf(arguments, arguments.length);
      again[0] = quoted;
      return invoke(proxy, method, again);
    }
  }

  /** The text with `t@v3` in backticks; null if it has none, or has another error. */
  private static String quoted(Object[] arguments) {
    if (!PythonEndpoint.isOpen() || arguments == null || !(arguments[0] instanceof String)) return null;
    String text = (String) arguments[0];
    return text.indexOf('@') < 0 ? null : PythonCallbacks.quoteVersions(text);
  }

  public static Object around(Object spark, String ours, org.apache.spark.sql.classic.SparkSession unordered) {
    DeltaParser parser = new DeltaParser(spark, ours, unordered);
    return Proxy.newProxyInstance(ParserInterface.class.getClassLoader(), new Class[] {ParserInterface.class}, parser);
  }
}
