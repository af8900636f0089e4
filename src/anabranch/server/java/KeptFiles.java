package delta.server;

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
 * Local files as sessions of clients have them: each path is looked at when it is opened, listed, written or removed, so behind
 * patterns and links, whichever plan or input format came to it. Made by its name, in the driver and in executors.
 */
public final class KeptFiles extends LocalFileSystem {
  /** The setting with the folders that may be reached, parted by U+0001, of which the first is the warehouse's. */
  public static final String FOLDERS = "fs.kept.folders";
  /** The setting with the folder of the metastore, which is none of these, or an empty text. */
  public static final String METASTORE = "fs.kept.metastore";
  /** The setting with the beginnings of folders that the server makes for itself, under names that nobody guesses, parted likewise. */
  public static final String OWN = "fs.kept.own";
  static final String PART = String.valueOf((char) 1);

  public KeptFiles() {
    super(new Raw());
  }

  /** What all others of this kind are built on. */
  public static final class Raw extends RawLocalFileSystem {
    private String[] folders = new String[0];
    private String metastore = "";
    private String[] own = new String[0];

    public void initialize(URI uri, Configuration settings) throws IOException {
      super.initialize(uri, settings);
      // Raw: names of folders may look like Hadoop's variables.
      folders = settings.getRaw(FOLDERS).split(PART);
      metastore = settings.getRaw(METASTORE);
      own = settings.getRaw(OWN).split(PART);
    }

    public File pathToFile(Path path) {
      File file = super.pathToFile(path);
      if (!isAllowed(placeOf(file))) throw OnlyWarehouse.outside(path.toString());
      return file;
    }

    /** Who lists the warehouse, as a pattern does, does not see the metastore in it. */
    public FileStatus getFileStatus(Path path) throws IOException {
      if (placeOf(super.pathToFile(path)).equals(metastore)) throw new FileNotFoundException(path.toString());
      return super.getFileStatus(path);
    }

    /** The file behind links; an empty text where nobody knows. */
    private static String placeOf(File file) {
      try {
        return file.getCanonicalPath();
      } catch (IOException error) {
        return "";
      }
    }

    public void createSymlink(Path target, Path link, boolean withParents) {
      throw OnlyWarehouse.outside(target.toString());
    }

    private boolean isAllowed(String place) {
      if (isIn(place, metastore)) return false;
      for (int i = 0; i < folders.length; i++) if (isIn(place, folders[i])) return true;
      for (int i = 0; i < own.length; i++) if (place.startsWith(own[i])) return true;
      return false;
    }

    private static boolean isIn(String place, String folder) {
      return !folder.isEmpty() && (place.equals(folder) || place.startsWith(folder.endsWith("/") ? folder : folder + "/"));
    }
  }
}
