package anabranch;

import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;

/** Spark's Parquet writer for files in which elements, keys and values have ids too. The driver alone uses it. */
public final class NestedIdsParquet extends ParquetFileFormat {
  private final String ids;

  /** @param ids see `NestedIdsWriteSupport.IDS` */
  public NestedIdsParquet(String ids) {
    this.ids = ids;
  }

  public OutputWriterFactory prepareWrite(
      SparkSession session, Job job, scala.collection.immutable.Map options, StructType dataSchema) {
    OutputWriterFactory writers = super.prepareWrite(session, job, options, dataSchema);
    job.getConfiguration().set("parquet.write.support.class", NestedIdsWriteSupport.class.getName());
    job.getConfiguration().set(NestedIdsWriteSupport.IDS, ids);
    return writers;
  }

  public boolean supportFieldName(String name) {
    return true;
  }

  /**
   * Makes `NestedIdsWriteSupport` available to executors, which load it by name. Those of a local session have the driver's classes; others
   * fetch our jar, as they fetch a user's.
   */
  public static synchronized void ship(org.apache.spark.SparkContext context) {
    if (context.isLocal()) return;
    String jar = NestedIdsWriteSupport.class.getProtectionDomain().getCodeSource().getLocation().toString();
    if (!context.listJars().exists(new EndsLike(jar))) context.addJar(jar);
  }

  private static final class EndsLike extends scala.runtime.AbstractFunction1 {
    private final String name;

    EndsLike(String jar) {
      this.name = jar.substring(jar.lastIndexOf('/'));
    }

    public Object apply(Object jar) {
      return Boolean.valueOf(((String) jar).endsWith(name));
    }
  }
}
