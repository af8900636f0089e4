package delta.server;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;

/** Asks clients of JDBC who they are, by names and hashes of passwords that Python has read. Hive makes one for each login. */
public final class Login implements PasswdAuthenticationProvider {
  /** What is computed for names that nobody has, so that they take as long. */
  private static final String NOBODY = "pbkdf2_sha256$600000$AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  private static volatile Map users = Collections.EMPTY_MAP;

  /** Names and hashes, `pbkdf2_sha256$iterations$salt$hash` in Base64. */
  public static void setUsers(Map hashes) {
    users = new HashMap(hashes);
  }

  public void Authenticate(String name, String password) throws AuthenticationException {
    String kept = (String) users.get(text(name));
    boolean same;
    try {
      same = matches(kept == null ? NOBODY : kept, password == null ? "" : text(password));
    } catch (Exception error) {
      throw new AuthenticationException("The login cannot be checked", error);
    }
    if (kept == null || !same) throw new AuthenticationException("The name or the password is wrong");
  }

  /** Hive makes a character of each byte, with its sign. */
  private static String text(String heard) {
    byte[] bytes = new byte[heard.length()];
    for (int i = 0; i < bytes.length; i++) {
      char each = heard.charAt(i);
      if (each > 0x7f && each < 0xff80) return heard;
      bytes[i] = (byte) each;
    }
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private static boolean matches(String kept, String password) throws Exception {
    String[] parts = kept.split("\\$");
    byte[] salt = Base64.getDecoder().decode(parts[2]);
    byte[] hash = Base64.getDecoder().decode(parts[3]);
    PBEKeySpec asked = new PBEKeySpec(password.toCharArray(), salt, Integer.parseInt(parts[1]), hash.length * 8);
    byte[] found = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(asked).getEncoded();
    return MessageDigest.isEqual(hash, found);
  }
}
