package anabranch;

import java.lang.ref.SoftReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BindReferences;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedPredicate;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The data files of one table version, as a file index for Spark's planner.
 *
 * Spark calls `listFiles` once per planned scan. Partition filters are applied here, exactly, because Spark does not
 * apply them again; one call to `reader`, in Python, decides everything else. It is on the driver only.
 */
public final class ListedFiles implements FileIndex {
  /** The part that all scans of one list of files share. Immutable except for the cache of hidden rows. */
  public static final class Files {
    private static final long BLOCK_BYTES = 134217728L;
    private final String digest;
    private final Path root;
    private final byte[] names;
    private final int[] nameEnds;
    private final long[] sizes;
    private final long[] times;
    private SoftReference statuses = new SoftReference(null);
    private final int[] groupOf;
    private final Object[][] groups;
    private final StructType groupSchema;
    private final byte[] hasHiddenRows;
    private final SoftReference[] hiddenRows;
    private final long totalBytes;

    /**
     * @param names plain paths, not URI-encoded, in UTF-8, end to end
     * @param nameEnds a little-endian int for each file: where its path ends
     * @param sizesAndTimes two little-endian longs for each file
     * @param groupOf a little-endian int for each file: its row among the distinct partition values
     * @param valueLengths a little-endian int for each value, row by row; -1 for null
     * @param values UTF-8, end to end
     * @param hasHiddenRows one byte for each file, 1 if it has a deletion vector
     */
    public Files(String digest, String root, byte[] names, byte[] nameEnds, byte[] sizesAndTimes, byte[] groupOf, Integer groupCount,
        byte[] valueLengths, byte[] values, StructType groupSchema, String timeZone, byte[] hasHiddenRows) {
      this.digest = digest;
      this.root = new Path(root);
      this.groupSchema = groupSchema;
      this.hasHiddenRows = hasHiddenRows;
      int count = hasHiddenRows.length;
      ByteBuffer ends = ByteBuffer.wrap(nameEnds).order(ByteOrder.LITTLE_ENDIAN);
      ByteBuffer numbers = ByteBuffer.wrap(sizesAndTimes).order(ByteOrder.LITTLE_ENDIAN);
      ByteBuffer group = ByteBuffer.wrap(groupOf).order(ByteOrder.LITTLE_ENDIAN);
      this.names = names;
      this.nameEnds = new int[count];
      this.sizes = new long[count];
      this.times = new long[count];
      this.groupOf = new int[count];
      this.hiddenRows = new SoftReference[count];
      long total = 0;
      for (int i = 0; i < count; i++) {
        this.nameEnds[i] = ends.getInt();
        this.sizes[i] = numbers.getLong();
        this.times[i] = numbers.getLong();
        this.groupOf[i] = group.getInt();
        total += this.sizes[i];
      }
      this.totalBytes = total;
      this.groups = new Object[groupCount.intValue()][groupSchema.length()];
      ByteBuffer lengths = ByteBuffer.wrap(valueLengths).order(ByteOrder.LITTLE_ENDIAN);
      int start = 0;
      for (int g = 0; g < groups.length; g++) {
        for (int column = 0; column < groupSchema.length(); column++) {
          int length = lengths.getInt();
          if (length < 0) continue;
          UTF8String text = UTF8String.fromBytes(values, start, length);
          groups[g][column] = typed(text, groupSchema.apply(column), timeZone);
          start += length;
        }
      }
    }

    private String name(int file) {
      int start = file == 0 ? 0 : nameEnds[file - 1];
      return new String(names, start, nameEnds[file] - start, StandardCharsets.UTF_8);
    }

    /** The kept files as Hadoop describes them, null for the others. A query keeps few of many, so they are made when they are needed. */
    private synchronized FileStatus[] statuses(boolean[] kept) {
      FileStatus[] made = (FileStatus[]) statuses.get();
      if (made == null) {
        made = new FileStatus[kept.length];
        statuses = new SoftReference(made);
      }
      for (int i = 0; i < kept.length; i++) {
        if (kept[i] && made[i] == null) made[i] = new FileStatus(sizes[i], false, 1, BLOCK_BYTES, times[i], new Path(name(i)));
      }
      return made;
    }

    /** Casts a partition value as Spark casts those in paths. */
    private static Object typed(UTF8String text, StructField column, String timeZone) {
      Expression cast = new Cast(new Literal(text, DataTypes.StringType), column.dataType(), scala.Option.apply(timeZone));
      Object value = cast.eval(null);
      if (value == null) {
        throw new IllegalArgumentException(
            "Partition value '" + text + "' of column " + column.name() + " is not of type " + column.dataType().sql());
      }
      return value;
    }
  }

  private final Files files;
  private final String identity;
  private final StructType partitionSchema;
  private final String description;
  private final boolean withFileId;
  private final boolean withHiddenRows;
  /** The key of the transaction in which a query reads the files; null for other reads. */
  volatile String transaction;
  private BiFunction reader;
  private boolean prunes;

  /**
   * @param identity two indexes of one identity have the same rows, and Spark may run one scan for both
   * @param description the text of `toString`, for people and for `versions_read`
   * @param partitionSchema the columns of the groups, then the file id and the hidden rows, if they are needed
   */
  public ListedFiles(Files files, String identity, String description, StructType partitionSchema, Boolean withFileId,
      Boolean withHiddenRows) {
    this.files = files;
    this.description = description;
    this.identity = files.digest + identity;
    this.partitionSchema = partitionSchema;
    this.withFileId = withFileId.booleanValue();
    this.withHiddenRows = withHiddenRows.booleanValue();
  }

  /**
   * Sets the reader, before the first use.
   *
   * @param reader returns for ("prune", filters) one byte for each file, or null for all, and for ("hidden", ids) the hidden
   *     rows of those files; a Throwable is thrown
   * @param prunes whether to call it with "prune"; otherwise all files are read
   */
  public ListedFiles readBy(BiFunction reader, boolean prunes) {
    this.reader = reader;
    this.prunes = prunes;
    return this;
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    boolean[] kept = inPartitions(partitionFilters);
    byte[] wanted = prunes ? call("prune", joined(partitionFilters, dataFilters)) : null;
    if (wanted != null && wanted.length != kept.length) {
      throw new IllegalStateException("expected a byte for each of " + kept.length + " files, got " + wanted.length);
    }
    for (int i = 0; i < kept.length; i++) kept[i] = kept[i] && (wanted == null || wanted[i] != 0);
    byte[][] hiddenRows = withHiddenRows ? hiddenRows(kept) : new byte[kept.length][];
    return directories(kept, hiddenRows);
  }

  /** One directory for each file with a file id or hidden rows, and one for the other files of each group. */
  private scala.collection.immutable.Seq directories(boolean[] kept, byte[][] hiddenRows) {
    List directories = new ArrayList();
    FileStatus[] statuses = files.statuses(kept);
    List[] members = new List[files.groups.length];
    for (int i = 0; i < kept.length; i++) {
      if (!kept[i]) continue;
      int group = files.groupOf[i];
      if (withFileId || hiddenRows[i] != null) {
        FileStatus[] one = new FileStatus[] {statuses[i]};
        directories.add(PartitionDirectory.apply(row(group, Integer.valueOf(i), hiddenRows[i]), one));
      } else {
        if (members[group] == null) members[group] = new ArrayList();
        members[group].add(statuses[i]);
      }
    }
    for (int group = 0; group < members.length; group++) {
      if (members[group] == null) continue;
      FileStatus[] all = (FileStatus[]) members[group].toArray(new FileStatus[0]);
      directories.add(PartitionDirectory.apply(row(group, null, null), all));
    }
    return seq(directories);
  }

  private InternalRow row(int group, Integer fileId, byte[] hiddenRows) {
    Object[] partitionValues = files.groups[group];
    Object[] values = new Object[partitionSchema.length()];
    System.arraycopy(partitionValues, 0, values, 0, partitionValues.length);
    int next = partitionValues.length;
    if (withFileId) values[next++] = fileId;
    if (withHiddenRows) values[next] = hiddenRows;
    return new GenericInternalRow(values);
  }

  /** Which files pass all filters. A filter on partition values alone is evaluated once for each group, not for each file. */
  private boolean[] inPartitions(scala.collection.immutable.Seq filters) {
    boolean[] kept = new boolean[files.sizes.length];
    java.util.Arrays.fill(kept, true);
    for (int f = 0; f < filters.size(); f++) {
      Filter filter = new Filter((Expression) filters.apply(f), partitionSchema);
      if (filter.reaches(files.groupSchema.length())) {
        for (int i = 0; i < kept.length; i++) {
          kept[i] = kept[i] && filter.accepts(row(files.groupOf[i], Integer.valueOf(i), null), partitionSchema);
        }
      } else {
        boolean[] accepted = new boolean[files.groups.length];
        for (int g = 0; g < accepted.length; g++) accepted[g] = filter.accepts(row(g, null, null), partitionSchema);
        for (int i = 0; i < kept.length; i++) kept[i] = kept[i] && accepted[files.groupOf[i]];
      }
    }
    return kept;
  }

  /** A filter on partition columns. Spark makes new attributes for each plan, so columns are found by name. */
  private static final class Filter {
    private final InterpretedPredicate predicate;
    private final int[] ordinals;

    Filter(Expression expression, StructType schema) {
      scala.collection.immutable.Seq inputs = expression.references().toSeq();
      this.ordinals = new int[inputs.size()];
      for (int i = 0; i < ordinals.length; i++) {
        ordinals[i] = schema.fieldIndex(((Attribute) inputs.apply(i)).name());
      }
      Expression bound = BindReferences.bindReference(
          expression, new org.apache.spark.sql.catalyst.expressions.package$AttributeSeq(inputs), false);
      this.predicate = new InterpretedPredicate(bound);
      this.predicate.initialize(0);
    }

    boolean reaches(int ordinal) {
      for (int i = 0; i < ordinals.length; i++) if (ordinals[i] >= ordinal) return true;
      return false;
    }

    boolean accepts(InternalRow row, StructType schema) {
      Object[] values = new Object[ordinals.length];
      for (int i = 0; i < values.length; i++) {
        values[i] = row.get(ordinals[i], schema.apply(ordinals[i]).dataType());
      }
      return predicate.eval(new GenericInternalRow(values));
    }
  }

  /** Hidden rows of the kept files. Python is called only for files whose hidden rows are not cached. */
  private byte[][] hiddenRows(boolean[] kept) {
    byte[][] hidden = new byte[kept.length][];
    int[] unknown = new int[kept.length];
    int count = 0;
    for (int i = 0; i < kept.length; i++) {
      if (!kept[i] || files.hasHiddenRows[i] == 0) continue;
      SoftReference cached = files.hiddenRows[i];
      hidden[i] = cached == null ? null : (byte[]) cached.get();
      if (hidden[i] == null) unknown[count++] = i;
    }
    if (count == 0) return hidden;
    ByteBuffer ids = ByteBuffer.allocate(4 * count).order(ByteOrder.LITTLE_ENDIAN);
    for (int n = 0; n < count; n++) ids.putInt(unknown[n]);
    // The lengths for all files, then the contents, one after the other.
    ByteBuffer rows = ByteBuffer.wrap(call("hidden", ids.array())).order(ByteOrder.LITTLE_ENDIAN);
    int[] lengths = new int[count];
    for (int n = 0; n < count; n++) lengths[n] = rows.getInt();
    for (int n = 0; n < count; n++) {
      byte[] content = new byte[lengths[n]];
      rows.get(content);
      hidden[unknown[n]] = content;
      files.hiddenRows[unknown[n]] = new SoftReference(content);
    }
    return hidden;
  }

  private byte[] call(String method, Object argument) {
    Object result = PythonEndpoint.apply(reader, method, argument);
    if (result instanceof Throwable) org.apache.spark.unsafe.Platform.throwException((Throwable) result);
    return (byte[]) result;
  }

  /** Each filter as JSON, or empty without one, with NUL at its end. */
  private static String joined(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    StringBuilder parts = new StringBuilder();
    append(parts, partitionFilters);
    append(parts, dataFilters);
    return parts.toString();
  }

  private static void append(StringBuilder parts, scala.collection.immutable.Seq filters) {
    for (int i = 0; i < filters.size(); i++) {
      Expression filter = (Expression) filters.apply(i);
      String json = "";
      try {
        json = ConditionJson.json(filter);
      } catch (Exception unwritable) {
        // Without the filter Python keeps files that it could have left out.
      }
      parts.append(json).append('\0');
    }
  }

  private static scala.collection.immutable.Seq seq(List items) {
    return scala.jdk.javaapi.CollectionConverters.asScala(items).toList();
  }

  public scala.collection.immutable.Seq rootPaths() {
    return seq(java.util.Collections.singletonList(files.root));
  }

  public String[] inputFiles() {
    String[] paths = new String[files.sizes.length];
    for (int i = 0; i < paths.length; i++) paths[i] = new Path(files.name(i)).toUri().toString();
    return paths;
  }

  public void refresh() {}

  public long sizeInBytes() {
    return files.totalBytes;
  }

  public StructType partitionSchema() {
    return partitionSchema;
  }

  public boolean isTimeTravel() {
    return false;
  }

  public scala.Option metadataOpsTimeNs() {
    return scala.Option.empty();
  }

  public boolean equals(Object other) {
    return other instanceof ListedFiles && ((ListedFiles) other).identity.equals(identity)
        && ((ListedFiles) other).partitionSchema.equals(partitionSchema);
  }

  public int hashCode() {
    return identity.hashCode();
  }

  public String toString() {
    return description;
  }
}
