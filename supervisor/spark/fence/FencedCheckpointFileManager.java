package supervisor.spark.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import org.apache.spark.unsafe.Platform;

/**
 * Spark's checkpoint files on S3, where each entry of a log (offsets, commits, sources) is a conditional create: of two
 * drivers on one checkpoint exactly one writes an entry, and the other dies of Spark's CONCURRENT_STREAM_LOG_UPDATE.
 *
 * One PUT a file. Each object's metadata says who wrote it, and the loser's message repeats that. Any other file system
 * (a sink on HDFS, a temporary checkpoint) is written as Spark does by default. Compiled by Janino on the user's host
 * (supervisor/spark/fence/build.py): no lambdas, no generic methods, no nested type by its short name.
 */
public final class FencedCheckpointFileManager extends FileSystemBasedCheckpointFileManager {
    static final String CONDITION = "fs.option.create.conditional.overwrite";
    static final String HEADER = "fs.s3a.create.header.";
    static final String OWNER = "spark-supervisor-owner";
    static final String WRITE = "spark-supervisor-write";
    static final String MARK = "checkpoint fence: ";

    static volatile String lastWords = null;

    private final String owner;
    private final boolean fenced;
    private final CheckpointFileManager unfenced;
    private final RequestSaver saver;
    private boolean looked = false;
    private long newest = -1;

    public FencedCheckpointFileManager(Path path, Configuration conf) {
        super(path, conf);
        owner = conf.get("supervisor.fence.owner", "nobody");
        fenced = canFence(path);
        unfenced = fenced ? null : defaultManager(path, conf);
        saver = fenced ? RequestSaver.of(fs()) : null;
        if (!fenced && "s3a".equals(fs().getUri().getScheme())) {
            log().warn(MARK + path + " is not fenced: " + fs().getClass().getName() + " has no conditional create, or has it off");
        }
    }

    /** Asks the settings, not the store. */
    private boolean canFence(Path path) {
        try {
            return "s3a".equals(fs().getUri().getScheme()) && fs().hasPathCapability(path, CONDITION);
        } catch (IOException e) {
            return false;
        }
    }

    private static CheckpointFileManager defaultManager(Path path, Configuration conf) {
        try {
            return new FileContextBasedCheckpointFileManager(path, conf);
        } catch (Exception e) { // no FileContext for this scheme: Spark's default is then our own base class
            return null;
        }
    }

    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        if (!fenced) {
            return unfenced == null ? super.createAtomic(path, overwrite) : unfenced.createAtomic(path, overwrite);
        }
        String write = UUID.randomUUID().toString();
        try {
            FSDataOutputStreamBuilder builder = fs().createFile(path);
            builder.overwrite(true);
            builder.recursive();
            builder.opt("fs.s3a.create.performance", true); // no look at what is there: the condition decides
            builder.opt(HEADER + OWNER, owner);
            builder.opt(HEADER + WRITE, write);
            if (!overwrite) {
                builder.must(CONDITION, true);
            }
            return new Writing(this, path, (FSDataOutputStream) builder.build(), overwrite, write);
        } catch (IOException e) {
            Platform.throwException(e);
            return null;
        }
    }

    /** All that is there is seen, as S3A asks for it whatever the filter: a state store wants snapshots, and opens deltas. */
    @Override
    public FileStatus[] list(Path path, PathFilter filter) {
        if (saver == null) {
            return noted(super.list(path, filter));
        }
        List<FileStatus> found = new ArrayList<FileStatus>();
        try {
            FileStatus[] all = saver.list(path);
            for (int i = 0; i < all.length; i++) {
                if (filter.accept(all[i].getPath())) {
                    found.add(all[i]);
                }
            }
        } catch (IOException e) {
            Platform.throwException(e);
        }
        return noted((FileStatus[]) found.toArray(new FileStatus[0]));
    }

    private FileStatus[] noted(FileStatus[] found) {
        looked = true; // an empty log is known as well
        for (int i = 0; i < found.length; i++) {
            entryKnown(found[i].getPath());
        }
        return found;
    }

    @Override
    public FSDataInputStream open(Path path) {
        FSDataInputStream read = null;
        try {
            read = saver == null ? null : saver.open(path);
        } catch (IOException e) {
            Platform.throwException(e);
        }
        return read == null ? super.open(path) : read;
    }

    @Override
    public void delete(Path path) {
        try {
            super.delete(path);
        } finally {
            written(path);
        }
    }

    /** There is something else now, or nothing, than what was listed. */
    void written(Path path) {
        if (saver != null) {
            saver.forget(path);
        }
    }

    @Override
    public Path createCheckpointDirectory() {
        if (saver != null) {
            saver.forgetLooks();
        }
        return super.createCheckpointDirectory();
    }

    @Override
    public void mkdirs(Path path) {
        if (saver == null || !saver.isKnownDirectory(path)) {
            super.mkdirs(path);
            written(path);
        }
    }

    /** Spark asks this before it writes an entry; one beyond all that were listed or written here is another driver's. */
    @Override
    public boolean exists(Path path) {
        boolean there = isThere(path);
        boolean isEntry = saver == null || !saver.isKnownDirectory(path);
        if (there && fenced && isEntry && isUnknownEntry(path)) {
            try {
                if (fs().getFileStatus(path).isDirectory()) { // a log of its own, of a source: sources/0
                    return true;
                }
                Map<String, byte[]> found = fs().getXAttrs(path);
                if (!owner.equals(text(found, OWNER))) {
                    log().error(lastWords(conflict(path, found)));
                }
            } catch (IOException e) {
                log().warn(MARK + "who wrote " + path + " cannot be read: " + e);
            }
        }
        return there;
    }

    private boolean isThere(Path path) {
        try {
            return saver == null ? super.exists(path) : saver.exists(path, isUnknownEntry(path));
        } catch (IOException e) {
            Platform.throwException(e);
            return false;
        }
    }

    synchronized void entryKnown(Path path) {
        looked = true;
        newest = Math.max(newest, entry(path));
    }

    synchronized boolean isUnknownEntry(Path path) {
        return looked && entry(path) > newest;
    }

    private static long entry(Path path) {
        String name = path.getName();
        return name.matches("[0-9]{1,18}") ? Long.parseLong(name) : -1;
    }

    static String text(Map<String, byte[]> attributes, String name) {
        byte[] value = (byte[]) attributes.get("header." + name);
        return value == null ? "" : new String(value, StandardCharsets.UTF_8);
    }

    /** Also the last words of this JVM: the stack traces that follow are longer than what is kept of an output's end. */
    static synchronized String lastWords(String said) {
        try {
            if (lastWords == null) {
                Runtime.getRuntime().addShutdownHook(new LastWords());
            }
        } catch (IllegalStateException e) { // it is shutting down already
            System.err.println(said);
        }
        lastWords = said;
        return said;
    }

    static final class LastWords extends Thread {
        @Override
        public void run() {
            System.err.println(lastWords);
        }
    }

    String conflict(Path path, Map<String, byte[]> found) {
        String other = text(found, OWNER);
        String at = text(found, "Last-Modified");
        return MARK + path + " was written by [" + (other.isEmpty() ? "a driver without the fence" : other) + "]"
            + (at.isEmpty() ? "" : " at " + at) + ", this driver is [" + owner + "]";
    }

    FileSystem store() {
        return fs();
    }

    /** One file being written. Visible at close and not before; a cancelled one never is. */
    static final class Writing extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FencedCheckpointFileManager manager;
        private final Path path;
        private final FSDataOutputStream out;
        private final boolean overwrite;
        private final String write;
        private boolean over = false;

        Writing(FencedCheckpointFileManager manager, Path path, FSDataOutputStream out, boolean overwrite, String write) {
            super(out);
            this.manager = manager;
            this.path = path;
            this.out = out;
            this.overwrite = overwrite;
            this.write = write;
        }

        @Override
        public synchronized void close() throws IOException {
            if (over) {
                return;
            }
            over = true;
            try {
                out.close();
            } catch (IOException failure) {
                settle(failure);
            } finally {
                manager.written(path);
            }
            manager.entryKnown(path);
        }

        @Override
        public synchronized void cancel() {
            if (!over) {
                over = true;
                out.abort();
            }
        }

        /**
         * What is there decides. Refused or failed, it may still be ours: a PUT whose answer was lost is sent again by
         * the SDK, and is refused for the object that it had made. {@code write} is of this one stream alone.
         */
        private void settle(IOException failure) throws IOException {
            boolean refused = failure.getClass().getSimpleName().equals("RemoteFileChangedException"); // S3A's word for 412
            Map<String, byte[]> found;
            try {
                found = manager.store().getXAttrs(path);
            } catch (IOException unread) {
                if (!refused || overwrite) { // an overwrite has no condition: S3 never refuses it
                    throw failure;
                }
                String gone = unread instanceof FileNotFoundException ? "it has gone since" : unread.toString();
                throw new FileAlreadyExistsException(MARK + path + " was there already; who wrote it is not known: " + gone);
            }
            if (write.equals(text(found, WRITE))) {
                return;
            }
            if (overwrite) {
                throw failure;
            }
            throw new FileAlreadyExistsException(lastWords(manager.conflict(path, found)));
        }
    }
}
