package anabranch;

import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.filter.AbstractFilter;

/**
 * A filter for the log entries that Spark writes when a check of ours ends a task: up to 260 lines, with the text that Python parses.
 * Python raises a readable error in its place.
 */
public final class CheckFailureLogFilter extends AbstractFilter {
  private static final String MARK = "anabranch-check:";
  private static final int CAUSES_MAX = 100;
  private static CheckFailureLogFilter filter;

  private CheckFailureLogFilter() {}

  static synchronized void begin() {
    end();
    Object context = LogManager.getContext(org.apache.spark.SparkContext.class.getClassLoader(), false);
    // Another logging library than Spark's is configured: its log is left alone.
    if (!(context instanceof LoggerContext)) return;
    filter = new CheckFailureLogFilter();
    filter.start();
    ((LoggerContext) context).getConfiguration().getRootLogger().addFilter(filter);
  }

  static synchronized void end() {
    if (filter == null) return;
    Object context = LogManager.getContext(org.apache.spark.SparkContext.class.getClassLoader(), false);
    ((LoggerContext) context).getConfiguration().getRootLogger().removeFilter(filter);
    filter = null;
  }

  public org.apache.logging.log4j.core.Filter.Result filter(LogEvent event) {
    if (event.getMessage().getFormattedMessage().contains(MARK)) return org.apache.logging.log4j.core.Filter.Result.DENY;
    Throwable error = event.getThrown();
    for (int i = 0; i < CAUSES_MAX && error != null; i++) {
      if (error.getMessage() != null && error.getMessage().contains(MARK)) return org.apache.logging.log4j.core.Filter.Result.DENY;
      error = error.getCause();
    }
    return org.apache.logging.log4j.core.Filter.Result.NEUTRAL;
  }
}
