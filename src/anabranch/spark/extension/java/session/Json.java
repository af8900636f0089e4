package anabranch;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Values for Python, as JSON. */
public final class Json {
  private Json() {}

  public static String text(Object value) {
    try {
      return new ObjectMapper().writeValueAsString(value);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }
}
