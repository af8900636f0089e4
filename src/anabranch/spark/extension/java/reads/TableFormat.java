package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import scala.collection.immutable.Seq;

/** The fields of `_metadata` for the analyzer. Files are read by the plan by which `ChooseVersions` replaces this one. */
public class TableFormat extends ParquetFileFormat {
  private static final String[] OF_TRACKED_ROWS = {"base_row_id", "default_row_commit_version", "row_id", "row_commit_version"};

  private final boolean tracksRows;

  public TableFormat(boolean tracksRows) {
    this.tracksRows = tracksRows;
  }

  public Seq metadataSchemaFields() {
    Seq all = super.metadataSchemaFields();
    if (!tracksRows) return all;
    List fields = new ArrayList(scala.jdk.javaapi.CollectionConverters.asJava(all));
    for (int i = 0; i < OF_TRACKED_ROWS.length; i++)
      fields.add(new StructField(OF_TRACKED_ROWS[i], LongType$.MODULE$, true, Metadata.empty()));
    return scala.jdk.javaapi.CollectionConverters.asScala(fields).toList();
  }

  public boolean equals(Object other) {
    return other instanceof TableFormat && ((TableFormat) other).tracksRows == tracksRows;
  }

  public int hashCode() {
    return tracksRows ? 1 : 0;
  }
}
