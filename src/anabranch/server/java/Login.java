package anabranch.server;

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

/** Authenticates clients of JDBC by names and hashes of passwords, which Python has read. Hive creates an instance for each login. */
public final class Login implements PasswdAuthenticationProvider {
  /** The hash that is computed for a name that does not exist, so that its check takes as long. */
  private static final String HASH_OF_NO_USER = "pbkdf2_sha256$600000$AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  private static volatile Map users = Collections.EMPTY_MAP;

  /** Sets the users: names, and hashes as `pbkdf2_sha256$iterations$salt$hash` in Base64. */
  public static void setUsers(Map hashes) {
    users = new HashMap(hashes);
  }

  public void Authenticate(String name, String password) throws AuthenticationException {
    String hash = (String) users.get(decoded(name));
    boolean isRight;
    try {
      isRight = matches(hash == null ? HASH_OF_NO_USER : hash, password == null ? "" : decoded(password));
    } catch (Exception error) {
      throw new AuthenticationException("The login cannot be checked", error);
    }
    if (hash == null || !isRight) throw new AuthenticationException("The name or the password is wrong");
  }

  /** The text as the client sent it. Hive turns each byte of its UTF-8 into one character, with the byte's sign. */
  private static String decoded(String received) {
    byte[] bytes = new byte[received.length()];
    for (int i = 0; i < bytes.length; i++) {
      char character = received.charAt(i);
      if (character > 0x7f && character < 0xff80) return received;
      bytes[i] = (byte) character;
    }
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private static boolean matches(String stored, String password) throws Exception {
    String[] parts = stored.split("\\$");
    byte[] salt = Base64.getDecoder().decode(parts[2]);
    byte[] hash = Base64.getDecoder().decode(parts[3]);
    PBEKeySpec key = new PBEKeySpec(password.toCharArray(), salt, Integer.parseInt(parts[1]), hash.length * 8);
    byte[] computed = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(key).getEncoded();
    return MessageDigest.isEqual(hash, computed);
  }
}
