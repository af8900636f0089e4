package anabranch;

import java.util.Date;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkContext;
import org.apache.spark.status.api.v1.JobData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * The description and the group of a statement's jobs in Spark's UI, and their tag, by which their tasks are counted. They are local properties of
 * the thread, which users may set: a description or a group of theirs stays. Spark takes the description of a query's execution from the same property.
 */
public final class JobDescriptions {
  private static final String DESCRIPTION = "spark.job.description";
  private static final String GROUP = "spark.jobGroup.id";
  /** Our last description of the thread, which differs from the description once the user has set one. */
  private static final String OURS = "anabranch.job.description";
  /** The tag that the thread's jobs have for us. A group may be the user's, and have jobs of other statements, too. */
  private static final String TAG = "anabranch.job.tag";
  private static final String[] PROPERTIES = {DESCRIPTION, GROUP, OURS, TAG};
  private static final int CHARACTERS_MAX = 100;
  private static final AtomicLong GROUPS = new AtomicLong();
  private static final AtomicLong TAGS = new AtomicLong();
  /** By thread: the properties before those of a command that is analysed and does not run yet. */
  private static final ThreadLocal ANALYSED = new ThreadLocal();

  private JobDescriptions() {}

  /** Sets description, group and tag, until the current callback of this thread returns. Those of the user stay. Returns our tag. */
  public static String describe(String text) {
    SparkContext context = context();
    if (context == null) return null;
    describe(context, text);
    String tag = context.getLocalProperty(TAG);
    if (tag != null) return tag;
    tag = "anabranch-statement-" + TAGS.incrementAndGet();
    context.setLocalProperty(TAG, tag);
    context.addJobTag(tag);
    return tag;
  }

  /** Of the jobs with this tag that began at `since` or later: how many of their tasks are done, and how many they have, as `3 12`. */
  public static String tasks(String tag, long since) {
    SparkContext context = context();
    int done = 0, all = 0;
    scala.collection.Iterator jobs = context.statusStore().jobsList(null).iterator();
    while (jobs.hasNext()) {
      JobData job = (JobData) jobs.next();
      if (!job.jobTags().contains(tag) || job.submissionTime().isEmpty()) continue;
      if (((Date) job.submissionTime().get()).getTime() < since) continue;
      done += job.numCompletedIndices();
      all += job.numTasks() - job.numSkippedTasks();
    }
    return done + " " + all;
  }

  private static void describe(SparkContext context, String text) {
    if (context.getLocalProperty(GROUP) == null) context.setLocalProperty(GROUP, "anabranch-" + GROUPS.incrementAndGet());
    if (isUsers(context)) return;
    context.setLocalProperty(DESCRIPTION, text);
    context.setLocalProperty(OURS, text);
  }

  /** The properties of the thread, for `restore`; null if there is no application. */
  public static String[] current() {
    SparkContext context = context();
    if (context == null) return null;
    String[] values = new String[PROPERTIES.length];
    for (int i = 0; i < values.length; i++) values[i] = context.getLocalProperty(PROPERTIES[i]);
    return values;
  }

  public static void restore(String[] values) {
    SparkContext context = context();
    if (context == null || values == null) return;
    String tag = context.getLocalProperty(TAG);
    for (int i = 0; i < values.length; i++) context.setLocalProperty(PROPERTIES[i], values[i]);
    // The others stay: Spark and its servers tag the jobs of their executions.
    if (tag != null && !tag.equals(context.getLocalProperty(TAG))) context.removeJobTag(tag);
  }

  /**
   * Describes the execution of a command, which begins right after the analysis: Spark reads the description before it runs the command.
   * Called with each plan that our rule returns. A command that was analysed and did not run is forgotten with the next plan.
   */
  static void analysed(Object plan) {
    restore(ranOrLeft());
    SparkContext context = plan instanceof PythonCommand ? context() : null;
    if (context == null || isUsers(context)) return;
    // EXPLAIN, and other commands that only look at this one, have an execution.
    if (context.getLocalProperty("spark.sql.execution.id") != null) return;
    String text = ((PythonCommand) plan).text();
    if (text == null) return;
    ANALYSED.set(current());
    describe(context, shortened(text));
  }

  /** The properties before those of the analysed command, which is not waiting to run any longer; null without one. */
  static String[] ranOrLeft() {
    String[] before = (String[]) ANALYSED.get();
    if (before != null) ANALYSED.remove();
    return before;
  }

  /** How a DELETE, UPDATE or MERGE without a text begins; null for other statements. */
  static String words(LogicalPlan statement) {
    String node = statement.nodeName();
    String verb = node.equals("DeleteFromTable") ? "DELETE FROM " : node.equals("UpdateTable") ? "UPDATE " : node.equals("MergeIntoTable") ? "MERGE INTO " : null;
    return verb == null ? null : verb + RowChangeStatements.table(statement).name();
  }

  private static String shortened(String text) {
    String line = text.trim().replaceAll("\\s+", " ");
    return line.length() <= CHARACTERS_MAX ? line : line.substring(0, CHARACTERS_MAX - 1) + "…";
  }

  private static boolean isUsers(SparkContext context) {
    String description = context.getLocalProperty(DESCRIPTION);
    return description != null && !description.equals(context.getLocalProperty(OURS));
  }

  private static SparkContext context() {
    scala.Option context = org.apache.spark.SparkContext$.MODULE$.getActive();
    return context.isEmpty() ? null : (SparkContext) context.get();
  }
}
