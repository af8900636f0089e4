package anabranch;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A table from which a stream reads. Python has the positions and the files between them; this class has the methods of a Spark
 * source. V1_OFFSET is the class of offsets, whose package differs between releases.
 */
public class DeltaStream implements Source, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final Object session;
  private final String key;
  private final StructType schema;
  private final String path;
  /** Whether Python is called when a batch is done. */
  private final boolean tracks;

  /** @param opened key, schema as JSON, path, and whether it keeps a schema log, separated by NUL */
  public DeltaStream(Object session, String opened) {
    String[] parts = opened.split("\0", -1);
    this.session = session;
    this.key = parts[0];
    this.schema = (StructType) DataType.fromJson(parts[1]);
    this.path = parts[2];
    this.tracks = parts[3].equals("true");
  }

  public StructType schema() {
    return schema;
  }

  public void prepareForTriggerAvailableNow() {
    PythonCallbacks.prepareForAvailableNow(key);
  }

  /** The options decide how much a batch reads, in Python. Only whether Spark sets a limit matters, not which. */
  public ReadLimit getDefaultReadLimit() {
    return ReadLimit.maxFiles(Integer.MAX_VALUE);
  }

  public Offset latestOffset(Offset start, ReadLimit limit) {
    String position = PythonCallbacks.latestOffset(key, start == null ? null : start.json(), !(limit instanceof ReadAllAvailable));
    return position == null ? null : new DeltaOffset(position);
  }

  public scala.Option getOffset() {
    throw new UnsupportedOperationException("latestOffset");
  }

  public org.apache.spark.sql.classic.Dataset getBatch(scala.Option start, V1_OFFSET end) {
    String from = start.isDefined() ? ((V1_OFFSET) start.get()).json() : null;
    LogicalPlan rows = PythonCallbacks.rowsOfBatch(key, from, end.json());
    return org.apache.spark.sql.classic.Dataset.ofRows(
        (org.apache.spark.sql.classic.SparkSession) session, (LogicalPlan) rows.transformUp(new Streamed()));
  }

  /** Spark calls this when it plans the next batch. A stream with a schema log stops after a change of the columns. */
  public void commit(V1_OFFSET end) {
    if (tracks) PythonCallbacks.commitBatch(key, end.json());
  }

  /** Metrics under Delta's names, for `StreamingQueryProgress`. */
  public Map metrics(Optional latest) {
    Map metrics = new HashMap();
    String text = PythonCallbacks.streamMetrics(key);
    if (text == null) return metrics;
    String[] parts = text.split("\0", -1);
    for (int i = 0; i + 1 < parts.length; i += 2) metrics.put(parts[i], parts[i + 1]);
    return metrics;
  }

  public void stop() {
    if (PythonEndpoint.isOpen()) PythonCallbacks.closeStream(key);
  }

  public String toString() {
    return "DeltaSource[" + path + "]";
  }

  /** Marks the leaves of a batch as streaming, which Spark requires. */
  public static final class Streamed extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof LogicalRelation;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? DeltaRelations.streamed((LogicalRelation) node) : otherwise.apply(node);
    }
  }
}
