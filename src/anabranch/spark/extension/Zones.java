package delta;

import java.time.Instant;
import java.time.ZoneId;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;

/** Time zones by the JVM's own data, which is what Spark goes by. */
public final class Zones {
  /** The first moment of the year 10000, in seconds. Until then changes of clocks are told one by one. */
  private static final long LAST = 253402300800L;

  private Zones() {}

  /** The offset of the beginning, then each change of clocks and the offset after it, in seconds. Null for no zone of Spark's. */
  public static String rules(String name) {
    ZoneId zone;
    try {
      zone = DateTimeUtils.getZoneId(name);
    } catch (RuntimeException unknown) {
      return null;
    }
    ZoneRules rules = zone.getRules();
    StringBuilder told = new StringBuilder();
    told.append(rules.getOffset(Instant.ofEpochSecond(-LAST)).getTotalSeconds());
    ZoneOffsetTransition change = rules.nextTransition(Instant.ofEpochSecond(-LAST));
    while (change != null && change.toEpochSecond() < LAST) {
      told.append(' ').append(change.toEpochSecond()).append(' ').append(change.getOffsetAfter().getTotalSeconds());
      change = rules.nextTransition(change.getInstant());
    }
    return told.toString();
  }
}
