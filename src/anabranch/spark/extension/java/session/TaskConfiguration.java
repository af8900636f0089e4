package anabranch;

import java.io.DataOutput;
import java.io.IOException;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.WritableUtils;

/**
 * Hadoop's configuration as the tasks of a scan or a write need it: without the defaults of YARN and MapReduce, which are more than half
 * of it, and which neither a file system nor Parquet asks for. Spark copies it for each file, and sends it to executors for each scan.
 */
public final class TaskConfiguration extends Configuration {
  public TaskConfiguration(Configuration all) {
    super(false);
    setClassLoader(all.getClassLoader());
    Iterator entries = all.iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      String name = (String) entry.getKey();
      // Set, as in an executor, and not only there: a file system whose class is loaded later has all configurations load anew.
      if (!isUnused(all.getPropertySources(name))) set(name, (String) entry.getValue());
    }
  }

  private static boolean isUnused(String[] sources) {
    return sources != null && sources.length == 1 && (sources[0].equals("yarn-default.xml") || sources[0].equals("mapred-default.xml"));
  }

  /** As Hadoop's, without the sources of the values: each is compressed by itself, which takes milliseconds here and in each executor. */
  public void write(DataOutput out) throws IOException {
    WritableUtils.writeVInt(out, size());
    Iterator entries = iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      Text.writeString(out, (String) entry.getKey());
      Text.writeString(out, (String) entry.getValue());
      WritableUtils.writeCompressedStringArray(out, null);
    }
  }
}
