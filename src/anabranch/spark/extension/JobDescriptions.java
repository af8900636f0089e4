package delta;

import org.apache.spark.SparkContext;

/** The description of a statement's jobs in Spark's UI: a local property of the thread, which users may set. */
public final class JobDescriptions {
  private static final String PROPERTY = "spark.job.description";
  private static final String OURS = "Delta: ";

  private JobDescriptions() {}

  /** Sets the description until the current callback of this thread returns. A description of the user stays. */
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
