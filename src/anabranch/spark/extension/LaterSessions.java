package delta;

/** A function for SparkSessionExtensions that makes a rule for every session, also for later ones. */
public class LaterSessions extends scala.runtime.AbstractFunction1 {
  private final String what;

  public LaterSessions(String what) {
    this.what = what;
  }

  public Object apply(Object session) {
    if (what.equals("paths")) return new PathsAreTables(session);
    if (what.equals("inserts")) return new Inserts(session);
    if (what.equals("keywords")) return new Keywords(session);
    return what.equals("resolve") ? (Object) new Resolve(session) : new Versions(session);
  }
}
