package anabranch;

import java.time.Instant;
import java.time.ZoneId;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;

/** Time zones by the JVM's data, which Spark uses. */
public final class TimeZones {
  /** The first moment of the year 10000, in seconds. Changes of clocks are listed up to it. */
  private static final long LAST = 253402300800L;

  private TimeZones() {}

  /** The first offset, then each change of clocks and the offset after it, in seconds. Null if Spark has no such zone. */
  public static String rules(String name) {
    ZoneId zone;
    try {
      zone = DateTimeUtils.getZoneId(name);
    } catch (RuntimeException unknown) {
      return null;
    }
    ZoneRules rules = zone.getRules();
    StringBuilder text = new StringBuilder();
    text.append(rules.getOffset(Instant.ofEpochSecond(-LAST)).getTotalSeconds());
    ZoneOffsetTransition change = rules.nextTransition(Instant.ofEpochSecond(-LAST));
    while (change != null && change.toEpochSecond() < LAST) {
      text.append(' ').append(change.toEpochSecond()).append(' ').append(change.getOffsetAfter().getTotalSeconds());
      change = rules.nextTransition(change.getInstant());
    }
    return text.toString();
  }
}
