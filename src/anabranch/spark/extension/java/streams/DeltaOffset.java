package anabranch;

/** A position of a stream in a table, as it is in the checkpoint. */
public final class DeltaOffset extends V1_OFFSET {
  private final String text;

  public DeltaOffset(String text) {
    this.text = text;
  }

  public String json() {
    return text;
  }
}
