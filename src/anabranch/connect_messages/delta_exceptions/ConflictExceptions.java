package io.delta.exceptions;

/**
 * Under delta-spark's names, as its clients of Spark Connect find `delta.exceptions` by the names of the classes that a server
 * sends. They are anabranch's, and built by `DeltaError.of`.
 */
public class DeltaConcurrentModificationException extends delta.DeltaError {
  public DeltaConcurrentModificationException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}

public class ConcurrentWriteException extends DeltaConcurrentModificationException {
  public ConcurrentWriteException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}

public class ConcurrentAppendException extends DeltaConcurrentModificationException {
  public ConcurrentAppendException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}

public class ConcurrentDeleteReadException extends DeltaConcurrentModificationException {
  public ConcurrentDeleteReadException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}

public class ConcurrentDeleteDeleteException extends DeltaConcurrentModificationException {
  public ConcurrentDeleteDeleteException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}

public class ConcurrentTransactionException extends DeltaConcurrentModificationException {
  public ConcurrentTransactionException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}

public class MetadataChangedException extends DeltaConcurrentModificationException {
  public MetadataChangedException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}

public class ProtocolChangedException extends DeltaConcurrentModificationException {
  public ProtocolChangedException(String condition, String sqlState, String message, int number, String text) {
    super(condition, sqlState, message, number, text);
  }
}
