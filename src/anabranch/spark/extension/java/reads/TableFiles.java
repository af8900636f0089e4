package anabranch;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;

/** The files of a table for which no version is chosen yet; `ChooseVersions` replaces it by a list of files. */
public final class TableFiles implements FileIndex {
  public final DeltaTable table;

  public TableFiles(DeltaTable table) {
    this.table = table;
  }

  public scala.collection.immutable.Seq rootPaths() {
    return (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$.$colon$colon(new Path(table.path));
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    throw new IllegalStateException("anabranch.ChooseVersions has chosen no version of " + table.name);
  }

  public String[] inputFiles() {
    return new String[0];
  }

  public void refresh() {}

  public long sizeInBytes() {
    return org.apache.spark.sql.internal.SQLConf.get().defaultSizeInBytes();
  }

  public StructType partitionSchema() {
    return table.partitionSchema();
  }

  public boolean isTimeTravel() {
    return false;
  }

  public scala.Option metadataOpsTimeNs() {
    return scala.Option.empty();
  }

  public boolean equals(Object other) {
    return other instanceof TableFiles && ((TableFiles) other).table.equals(table);
  }

  public int hashCode() {
    return table.hashCode();
  }

  /** Python reads from this text which tables a plan reads. */
  public String toString() {
    return "anabranch: version " + (table.version == null ? "newest" : "past") + " of " + table.path;
  }
}
