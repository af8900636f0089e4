package delta;

import org.apache.spark.SparkContext;

/** By what Spark's UI shows the jobs of a statement. A local property of the thread holds it, and users may set it. */
public final class JobDescriptions {
  private static final String PROPERTY = "spark.job.description";
  private static final String OURS = "Delta: ";

  private JobDescriptions() {}

  /** Until the question that this thread asks is answered. What the user has set stays. */
  public static void describe(String text) {
    String before = current();
    if (before == null || before.startsWith(OURS)) restore(OURS + text);
  }

  static String current() {
    scala.Option context = org.apache.spark.SparkContext$.MODULE$.getActive();
    return context.isEmpty() ? null : ((SparkContext) context.get()).getLocalProperty(PROPERTY);
  }

  static void restore(String description) {
    scala.Option context = org.apache.spark.SparkContext$.MODULE$.getActive();
    if (!context.isEmpty()) ((SparkContext) context.get()).setLocalProperty(PROPERTY, description);
  }
}
