package anabranch;

/** A function for SparkSessionExtensions that makes a rule for every session, also for later ones. */
public class RuleBuilder extends scala.runtime.AbstractFunction1 {
  private final String what;

  public RuleBuilder(String what) {
    this.what = what;
  }

  public Object apply(Object session) {
    if (what.equals("paths")) return new ResolveTablePaths();
    if (what.equals("inserts")) return new ResolveInserts(session);
    if (what.equals("keywords")) return new ResolveUpdateDefaults(session);
    if (what.equals("reads")) return new Transactions(session);
    if (what.equals("transactions")) return new Transactions.Normalize(session);
    return what.equals("resolve") ? (Object) new ResolveDeltaTables(session) : new ChooseVersions(session);
  }
}
