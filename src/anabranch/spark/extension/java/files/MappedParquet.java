package anabranch;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.ParquetInputFormat;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.*;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's Parquet reader for files whose columns may have physical names and ids, and whose times may be old.
 *
 * The plan speaks of logical names throughout, so that pruning of nested columns and pushed filters work as ever; names
 * change here, where the reader is built. The reader itself is made by a plain ParquetFileFormat: what it ships to
 * executors must not refer to this class, which they do not have.
 */
public final class MappedParquet extends ParquetFileFormat {
  private final StructType table;
  private final boolean byId;

  /** 1582-10-17: earlier days may be shifted by the change of the calendar, in any time zone. */
  private static final long FIRST_DAY_MS = -12219120000000L;
  /** 1900-01-02: since then Java's old classes have the offsets of time zones that its new ones have. */
  private static final long FIRST_TIME_MS = -2208902400000L;

  private static final String DICTIONARY_FILTER = ParquetInputFormat.DICTIONARY_FILTERING_ENABLED;

  /**
   * @param table logical schema, with column-mapping metadata; null where columns have their own names in files
   * @param byId whether files are read by field id
   */
  public MappedParquet(StructType table, Boolean byId) {
    this.table = table;
    this.byId = byId.booleanValue();
  }

  public scala.Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType dataSchema, StructType partitionSchema, StructType requiredSchema,
      scala.collection.immutable.Seq filters, scala.collection.immutable.Map options, Configuration configuration) {
    if (byId) {
      configuration.setBoolean("spark.sql.parquet.fieldId.read.enabled", true);
      configuration.setBoolean("spark.sql.parquet.fieldId.read.ignoreMissing", false);
    }
    if (areRanges(filters) && configuration.get(DICTIONARY_FILTER) == null) configuration.setBoolean(DICTIONARY_FILTER, false);
    return new ParquetFileFormat().buildReaderWithPartitionValues(
        session, table == null ? dataSchema : physical(dataSchema, table), partitionSchema,
        table == null ? requiredSchema : physical(requiredSchema, table), renamed(filters), options, new TaskConfiguration(configuration));
  }

  public boolean supportFieldName(String name) {
    return true;
  }

  /** The schema in physical names. Fields that the table does not have are the reader's own, such as the row index. */
  private StructType physical(StructType schema, StructType reference) {
    StructField[] fields = schema.fields();
    StructField[] renamed = new StructField[fields.length];
    for (int i = 0; i < fields.length; i++) {
      StructField column = field(reference, fields[i].name());
      if (column == null) {
        renamed[i] = fields[i];
      } else {
        DataType type = physical(fields[i].dataType(), column.dataType());
        // Always nullable: a file that was written before the column was added lacks it.
        renamed[i] = new StructField(physicalName(column), type, true, metadata(fields[i].metadata(), column));
      }
    }
    return new StructType(renamed);
  }

  private DataType physical(DataType type, DataType reference) {
    if (type instanceof StructType && reference instanceof StructType) {
      return physical((StructType) type, (StructType) reference);
    }
    if (type instanceof ArrayType && reference instanceof ArrayType) {
      return new ArrayType(physical(((ArrayType) type).elementType(), ((ArrayType) reference).elementType()), true);
    }
    if (type instanceof MapType && reference instanceof MapType) {
      MapType map = (MapType) type;
      MapType tableMap = (MapType) reference;
      return new MapType(
          physical(map.keyType(), tableMap.keyType()), physical(map.valueType(), tableMap.valueType()), true);
    }
    return type;
  }

  private Metadata metadata(Metadata of, StructField column) {
    // Fields that are no columns of the table, such as the type of a change, have no id; names match them.
    if (!byId || !column.metadata().contains("delta.columnMapping.id")) return of;
    long id = column.metadata().getLong("delta.columnMapping.id");
    return new MetadataBuilder().withMetadata(of).putLong("parquet.field.id", id).build();
  }

  private static String physicalName(StructField field) {
    return field.metadata().getString("delta.columnMapping.physicalName");
  }

  private static StructField field(StructType schema, String name) {
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) if (fields[i].name().equals(name)) return fields[i];
    return null;
  }

  /**
   * Whether the filters compare columns only with bounds and NULL. Parquet tests each bound by itself, so that a column's dictionary, which
   * takes time to decode, says no more than the least and the greatest value of its row group.
   */
  private static boolean areRanges(scala.collection.immutable.Seq filters) {
    for (int i = 0; i < filters.size(); i++) if (!isRange((Filter) filters.apply(i))) return false;
    return true;
  }

  private static boolean isRange(Filter filter) {
    if (filter instanceof And) return isRange(((And) filter).left()) && isRange(((And) filter).right());
    if (filter instanceof Or) return isRange(((Or) filter).left()) && isRange(((Or) filter).right());
    return filter instanceof GreaterThan || filter instanceof GreaterThanOrEqual || filter instanceof LessThan
        || filter instanceof LessThanOrEqual || filter instanceof IsNull || filter instanceof IsNotNull;
  }

  /** None by id: pushed filters go by name, which in some file may be that of another column. */
  private scala.collection.immutable.Seq renamed(scala.collection.immutable.Seq filters) {
    List physicalFilters = new ArrayList();
    for (int i = 0; !byId && i < filters.size(); i++) {
      Filter filter = renamed((Filter) filters.apply(i));
      if (filter != null) physicalFilters.add(filter);
    }
    return scala.jdk.javaapi.CollectionConverters.asScala(physicalFilters).toList();
  }

  /** The filter in physical names. Null for an unknown filter: Spark tests every row again, so only speed is lost. */
  private Filter renamed(Filter filter) {
    if (filter instanceof And) {
      Filter left = renamed(((And) filter).left());
      Filter right = renamed(((And) filter).right());
      return left == null || right == null ? null : new And(left, right);
    }
    if (filter instanceof Or) {
      Filter left = renamed(((Or) filter).left());
      Filter right = renamed(((Or) filter).right());
      return left == null || right == null ? null : new Or(left, right);
    }
    if (filter instanceof Not) {
      Filter child = renamed(((Not) filter).child());
      return child == null ? null : new Not(child);
    }
    if (isOld(filter)) return null;
    if (filter instanceof EqualTo) {
      return new EqualTo(at(((EqualTo) filter).attribute()), ((EqualTo) filter).value());
    }
    if (filter instanceof EqualNullSafe) {
      return new EqualNullSafe(at(((EqualNullSafe) filter).attribute()), ((EqualNullSafe) filter).value());
    }
    if (filter instanceof GreaterThan) {
      return new GreaterThan(at(((GreaterThan) filter).attribute()), ((GreaterThan) filter).value());
    }
    if (filter instanceof GreaterThanOrEqual) {
      return new GreaterThanOrEqual(
          at(((GreaterThanOrEqual) filter).attribute()), ((GreaterThanOrEqual) filter).value());
    }
    if (filter instanceof LessThan) {
      return new LessThan(at(((LessThan) filter).attribute()), ((LessThan) filter).value());
    }
    if (filter instanceof LessThanOrEqual) {
      return new LessThanOrEqual(at(((LessThanOrEqual) filter).attribute()), ((LessThanOrEqual) filter).value());
    }
    if (filter instanceof In) return new In(at(((In) filter).attribute()), ((In) filter).values());
    if (filter instanceof IsNull) return new IsNull(at(((IsNull) filter).attribute()));
    if (filter instanceof IsNotNull) return new IsNotNull(at(((IsNotNull) filter).attribute()));
    if (filter instanceof StringStartsWith) {
      return new StringStartsWith(at(((StringStartsWith) filter).attribute()), ((StringStartsWith) filter).value());
    }
    if (filter instanceof StringEndsWith) {
      return new StringEndsWith(at(((StringEndsWith) filter).attribute()), ((StringEndsWith) filter).value());
    }
    if (filter instanceof StringContains) {
      return new StringContains(at(((StringContains) filter).attribute()), ((StringContains) filter).value());
    }
    return null;
  }

  /**
   * Whether a filter has a date or time that Spark may have shifted: filters have them as java.sql.Date and Timestamp, whose
   * calendar lacks the days from 1582-10-05 to 14. Row groups with matching rows would be skipped.
   */
  private static boolean isOld(Filter filter) {
    if (filter instanceof In) {
      Object[] values = ((In) filter).values();
      for (int i = 0; i < values.length; i++) if (isOld(values[i])) return true;
      return false;
    }
    scala.collection.Iterator parts = ((scala.Product) filter).productIterator();
    while (parts.hasNext()) if (isOld(parts.next())) return true;
    return false;
  }

  private static boolean isOld(Object value) {
    if (value instanceof java.sql.Date) return ((java.sql.Date) value).getTime() < FIRST_DAY_MS;
    return value instanceof java.sql.Timestamp && ((java.sql.Timestamp) value).getTime() < FIRST_TIME_MS;
  }

  /** The physical name of a filter's column, such as `a.b`, quoted as this Spark quotes it. */
  private String at(String attribute) {
    if (table == null) return attribute;
    String[] parts = Expressions.column(attribute).fieldNames();
    List physical = new ArrayList();
    DataType here = table;
    for (int i = 0; i < parts.length; i++) {
      StructField field = here instanceof StructType ? field((StructType) here, parts[i]) : null;
      physical.add(field == null ? parts[i] : physicalName(field));
      here = field == null ? null : field.dataType();
    }
    return FieldReference.apply(scala.jdk.javaapi.CollectionConverters.asScala(physical).toList()).describe();
  }
}
