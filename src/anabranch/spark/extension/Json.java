package delta;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Values for Python, as JSON. */
public final class Json {
  private Json() {}

  public static String text(Object facts) {
    try {
      return new ObjectMapper().writeValueAsString(facts);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }
}
