package anabranch;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;

/** Leaves hidden rows out of a scan: see `IsLive`. */
public final class HiddenRowsFilter {
  private HiddenRowsFilter() {}

  /**
   * The rows without those in the hidden column.
   *
   * @param rowIndexColumn the column with the position of each row in its file; null if only `_metadata` has it
   * @param shown whether only the rows in the column are returned instead
   */
  public static Dataset of(Dataset rows, String hiddenColumn, String rowIndexColumn, int chunkBits, boolean shown) {
    org.apache.spark.sql.Column row = rowIndexColumn == null
        ? rows.metadataColumn("_metadata").getField("row_index") : rows.col(rowIndexColumn);
    org.apache.spark.sql.Column isLive = ExpressionUtils.column(new IsLive(
        ExpressionUtils.expression(rows.col(hiddenColumn)), ExpressionUtils.expression(row), Integer.valueOf(chunkBits)));
    return rows.where(shown ? functions.not(isLive) : isLive);
  }
}
