package anabranch.server;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * The local file system of clients' sessions. Each path is checked when it is opened, listed, written or removed, after patterns and
 * links are resolved and for every plan and input format. Hadoop creates it by its class name, in the driver and in executors.
 */
public final class RestrictedFiles extends LocalFileSystem {
  /** The setting with the allowed folders, separated by U+0001. The first is the warehouse. */
  public static final String FOLDERS = "fs.kept.folders";
  /** The setting with the folder of the metastore, which is not allowed, or an empty string. */
  public static final String METASTORE = "fs.kept.metastore";
  /** The setting with the path prefixes of the server's own temporary folders, whose names cannot be guessed, separated likewise. */
  public static final String OWN = "fs.kept.own";
  static final String SEPARATOR = String.valueOf((char) 1);

  public RestrictedFiles() {
    super(new Raw());
  }

  /** The file system below the checksums, through which every access goes. */
  public static final class Raw extends RawLocalFileSystem {
    private String[] folders = new String[0];
    private String metastore = "";
    private String[] own = new String[0];

    public void initialize(URI uri, Configuration settings) throws IOException {
      super.initialize(uri, settings);
      // `get` would substitute names of folders that look like Hadoop's variables.
      folders = settings.getRaw(FOLDERS).split(SEPARATOR);
      metastore = settings.getRaw(METASTORE);
      own = settings.getRaw(OWN).split(SEPARATOR);
    }

    public File pathToFile(Path path) {
      File file = super.pathToFile(path);
      if (!isAllowed(resolved(file))) throw WarehouseGuard.outside(path.toString());
      return file;
    }

    /** A listing of the warehouse, as for a pattern, does not show the metastore in it. */
    public FileStatus getFileStatus(Path path) throws IOException {
      if (resolved(super.pathToFile(path)).equals(metastore)) throw new FileNotFoundException(path.toString());
      return super.getFileStatus(path);
    }

    /** The path after links are resolved; an empty string, which is in no folder, if that fails. */
    private static String resolved(File file) {
      try {
        return file.getCanonicalPath();
      } catch (IOException error) {
        return "";
      }
    }

    public void createSymlink(Path target, Path link, boolean withParents) {
      throw WarehouseGuard.outside(target.toString());
    }

    private boolean isAllowed(String path) {
      if (isIn(path, metastore)) return false;
      for (int i = 0; i < folders.length; i++) if (isIn(path, folders[i])) return true;
      for (int i = 0; i < own.length; i++) if (path.startsWith(own[i])) return true;
      return false;
    }

    private static boolean isIn(String path, String folder) {
      return !folder.isEmpty() && (path.equals(folder) || path.startsWith(folder.endsWith("/") ? folder : folder + "/"));
    }
  }
}
