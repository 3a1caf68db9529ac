package supervisor.spark.fence;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.ref.SoftReference;
import java.net.SocketTimeoutException;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;

/**
 * Asks S3 less often for a checkpoint than Spark's own managers do, which pay for each look and each open:
 *
 * A file that was just seen, in a list or by itself, is opened with one GET, without a HEAD. A state store opens one delta
 * after the other, and waits for each: those that come after the opened one are read meanwhile, if no batch that is yet to be
 * committed can write them. A small file that was read
 * before, and has the same ETag still, is not read again. What a log or a state store has, and that a file exists, is not asked
 * again within a second, unless this JVM has written or deleted something meanwhile; the list of a log answers for its entries.
 * A directory of a state store that is known to exist is not looked for again: on S3 nothing depends on it, and one that was
 * deleted by others is listed as empty.
 *
 * What is handed out is the very object that was seen, because S3A asks for its ETag. Each look serves one open. An
 * ordinary open has to serve what was written or deleted here since, comes late after the look, or fails here. That another
 * driver has written within that second is seen at the next write, which the condition refuses.
 */
final class RequestSaver {
    static final int SMALL_BYTES = 256 * 1024;
    static final int KEPT_BYTES = 16 * 1024;
    static final int KEY_BYTES = 512;
    static final int ALL_KEPT_BYTES = 1024 * 1024;
    static final int DIRECTORIES = 100000;
    static final int FILES_AHEAD = 32;
    static final int THREADS = 8;
    static final int RECENT = 64;
    static final int RECENT_FILES = 5000;
    static final Pattern STATE_FILE = Pattern.compile("([0-9]{1,18})(_[^.]+)?\\.(delta|changelog|snapshot|zip)(\\.crc)?");
    static final Pattern STATE_DIRECTORY = Pattern.compile(".*/state/[0-9]+/[0-9]+(/[^/.]+)?");
    static final Pattern LOG = Pattern.compile(".*/(offsets|commits|sources|state)");
    static final Pattern ENTRY = Pattern.compile(".*/(offsets|commits|sources/[0-9]+)/[0-9]{1,18}");
    static long freshS = 30; // for a test to change

    private static final Map<String, Boolean> directories = new ConcurrentHashMap<String, Boolean>();
    private static final Map<String, Recent> recent = new HashMap<String, Recent>();
    private static long changes = 0;
    private static final Map<String, byte[]> kept = new HashMap<String, byte[]>();
    private static int keptBytes = 0;
    private static ThreadPoolExecutor readers = null;

    private final FileSystem store;
    private final TreeMap<String, Seen> listed = new TreeMap<String, Seen>();
    private Seen lookedAt = null;
    private long ownChanges = 0; // a look from before the last one is not used: S3 would refuse its ETag, a request later
    private long newestVersion = 0;

    private RequestSaver(FileSystem store) {
        this.store = store;
    }

    /**
     * Returns null where S3A would not refuse a file that is another one than was seen, or tells another length of it, and
     * where it is not wanted (supervisor.fence.save.requests: false).
     */
    static RequestSaver of(FileSystem store) {
        boolean refuses = "etag".equals(store.getConf().get("fs.s3a.change.detection.source", "etag"))
            && store.getConf().get("fs.s3a.change.detection.mode", "server").matches("server|client");
        String encrypted = store.getConf().get("fs.s3a.encryption.algorithm", "")
            + store.getConf().get("fs.s3a.server-side-encryption-algorithm", "");
        boolean wanted = store.getConf().getBoolean("supervisor.fence.save.requests", true);
        return wanted && refuses && !encrypted.contains("CSE") ? new RequestSaver(store) : null;
    }

    /** Returns all that a directory has. What was seen before is forgotten. */
    FileStatus[] list(Path path) throws IOException {
        long before = ownChanges();
        FileStatus[] found = null;
        try {
            found = isLog(path) ? looked(path, true) : listedOnce(path);
        } catch (FileNotFoundException e) {
            if (directories.remove(path.toString()) == null) {
                throw e;
            }
            found = new FileStatus[0]; // as far as anybody was told, it is there
        }
        note(found, before);
        return found;
    }

    /** Returns what was seen less than a second ago; or asks, and remembers that if nothing has changed here meanwhile. */
    private FileStatus[] looked(Path path, boolean asDirectory) throws IOException {
        FileStatus[] known = recentOf(path, asDirectory);
        if (known != null) {
            return known;
        }
        long before = changes();
        FileStatus[] found = asDirectory ? store.listStatus(path) : new FileStatus[] {store.getFileStatus(path)};
        remember(path, new RequestSaver.Recent(store, found, asDirectory), before);
        return found;
    }

    /** A list of a state store's directory may be long: it serves once. */
    private FileStatus[] listedOnce(Path path) throws IOException {
        FileStatus[] known = recentOf(path, true);
        if (known == null) {
            return store.listStatus(path);
        }
        synchronized (RequestSaver.class) {
            recent.remove(path.toString());
        }
        return known;
    }

    private FileStatus[] recentOf(Path path, boolean asDirectory) {
        synchronized (RequestSaver.class) {
            Recent known = (Recent) recent.get(path.toString());
            return known != null && known.serves(store, asDirectory) ? known.files : null;
        }
    }

    private static synchronized long changes() {
        return changes;
    }

    private static synchronized void remember(Path path, Recent found, long before) {
        if (recent.size() >= RECENT) {
            recent.clear();
        }
        if (changes == before && found.files.length <= RECENT_FILES) {
            recent.put(path.toString(), found);
        }
    }

    private static synchronized void change() {
        changes++;
        recent.clear();
    }

    private synchronized long ownChanges() {
        return ownChanges;
    }

    private synchronized void note(FileStatus[] found, long before) {
        listed.clear();
        lookedAt = null;
        newestVersion = 0;
        for (int i = 0; i < found.length; i++) {
            Matcher state = STATE_FILE.matcher(found[i].getPath().getName());
            newestVersion = state.matches() ? Math.max(newestVersion, Long.parseLong(state.group(1))) : newestVersion;
            if (isSmallFile(found[i]) && ownChanges == before) {
                listed.put(key(found[i].getPath()), new RequestSaver.Seen(store, found[i]));
            }
        }
    }

    /** Says whether there is a file or directory. {@code isNext}: an entry of a log beyond those that are known. */
    boolean exists(Path path, boolean isNext) throws IOException {
        long before = ownChanges();
        try {
            if (isKnownDirectory(path)) {
                return true;
            }
            boolean isEntry = ENTRY.matcher(path.toString()).matches();
            FileStatus[] log = isEntry ? recentOf(path.getParent(), true) : null;
            if (log != null) {
                return seeIn(log, path, before);
            }
            if (isEntry && isNext || isStateFile(path)) { // it is to be written, not to be opened
                return store.isFile(path); // one HEAD; for a status S3A looks for files below such a name, too
            }
            if (isLog(path)) {
                looked(path, true);
            } else if (STATE_DIRECTORY.matcher(path.toString()).matches()) {
                noteDirectory(path, looked(path, true)); // it is listed next
            } else {
                see(looked(path, false)[0], before);
            }
            return true;
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    private static boolean isLog(Path path) {
        return LOG.matcher(path.toString()).matches();
    }

    private static void noteDirectory(Path path, FileStatus[] files) {
        boolean isFile = files.length == 1 && files[0].isFile() && path.equals(files[0].getPath());
        if (!isFile) {
            if (directories.size() >= DIRECTORIES) {
                directories.clear();
            }
            directories.put(path.toString(), Boolean.TRUE);
        }
    }

    private boolean seeIn(FileStatus[] log, Path path, long before) {
        for (int i = 0; i < log.length; i++) {
            if (path.getName().equals(log[i].getPath().getName())) {
                see(log[i], before);
                return true;
            }
        }
        return false;
    }

    /** On S3 a file needs no directory: if this one was deleted meanwhile, writes go on. */
    boolean isKnownDirectory(Path path) {
        return directories.containsKey(path.toString());
    }

    private synchronized void see(FileStatus found, long before) {
        boolean serves = isSmallFile(found) && ownChanges == before;
        lookedAt = serves ? new RequestSaver.Seen(store, found) : null; // only the last such look counts
    }

    private static boolean isSmallFile(FileStatus found) {
        return found.isFile() && found.getLen() > 0 && found.getLen() <= SMALL_BYTES && etag(found) != null;
    }

    private static String etag(FileStatus found) {
        return found instanceof EtagSource ? ((EtagSource) found).getEtag() : null;
    }

    /** A file was written or deleted, or maybe a whole directory: an ordinary open shows what is there now. */
    synchronized void forget(Path path) {
        if (isStateFile(path)) {
            forgetLook();
            listed.remove(key(path));
        } else {
            forgetLooks();
            dropKept(path);
        }
    }

    /** A query starts: what was seen may be of a checkpoint that others have deleted since. What was read has its ETag. */
    synchronized void forgetLooks() {
        forgetLook();
        listed.clear();
    }

    private void forgetLook() {
        change();
        ownChanges++;
        lookedAt = null;
    }

    /** Returns the file, read as a whole; null if an ordinary open has to read it. */
    FSDataInputStream open(Path path) throws IOException {
        Seen seen = taken(path);
        if (seen == null && !isStateFile(path)) {
            seen = lookedFor(path);
        }
        if (seen == null) {
            return null;
        }
        FutureTask<byte[]> reading = seen.reading();
        try {
            reading.run(); // nothing, if a reader has begun with it
            return new FSDataInputStream(new RequestSaver.InMemory((byte[]) reading.get()));
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            boolean isInterrupt = cause instanceof InterruptedException
                || cause instanceof InterruptedIOException && !(cause instanceof SocketTimeoutException);
            if (isInterrupt) {
                Thread.currentThread().interrupt(); // for the ordinary open
            }
            return null;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    /** Looks for a file that is opened without having been looked for. */
    private Seen lookedFor(Path path) throws IOException {
        long before = ownChanges();
        FileStatus found = looked(path, false)[0];
        return isSmallFile(found) && ownChanges() == before ? new RequestSaver.Seen(store, found) : null;
    }

    private synchronized Seen taken(Path path) {
        String key = key(path);
        Seen seen = (Seen) listed.remove(key);
        if (lookedAt != null && path.equals(lookedAt.status.getPath())) {
            seen = lookedAt;
            lookedAt = null;
        }
        if (isStateFile(path)) {
            beginAfter(key);
        }
        return seen != null && seen.isFresh() ? seen : null;
    }

    private void beginAfter(String key) {
        Iterator<Map.Entry<String, Seen>> after = listed.tailMap(key, false).entrySet().iterator();
        for (int i = 0; i < FILES_AHEAD && after.hasNext(); i++) {
            Seen next = (Seen) ((Map.Entry<String, Seen>) after.next()).getValue();
            if (next.isFresh() && isSettled(next.status.getPath()) && !next.begin()) {
                return;
            }
        }
    }

    /**
     * Says whether no attempt of a batch that is yet to be committed can write this state file. What was read ahead is handed
     * out without another look. A file whose name has an id is written once. Without one (state format 1) an executor elsewhere
     * may write it again while its batch is not committed; that it is committed is known by a file of a later version.
     * After that only an attempt that has lost can write it, and what was read before that is what was committed.
     */
    private boolean isSettled(Path path) {
        Matcher state = STATE_FILE.matcher(path.getName());
        return state.matches() && (state.group(2) != null || Long.parseLong(state.group(1)) < newestVersion);
    }

    static boolean isStateFile(Path path) {
        return STATE_FILE.matcher(path.getName()).matches();
    }

    /** State files are in the order of their versions. */
    private static String key(Path path) {
        Matcher found = STATE_FILE.matcher(path.getName());
        return found.matches() ? String.format("%018d %s", Long.valueOf(found.group(1)), path) : path.toString();
    }

    static synchronized ThreadPoolExecutor readers() {
        if (readers == null) {
            readers = new ThreadPoolExecutor(THREADS, THREADS, 30, TimeUnit.SECONDS,
                new LinkedBlockingQueue<Runnable>(), new RequestSaver.Daemons());
            readers.allowCoreThreadTimeOut(true);
        }
        return readers;
    }

    /** Returns what was read of the very same object before, or null. */
    static synchronized byte[] kept(FileStatus status) {
        return (byte[]) kept.get(status.getPath() + " " + etag(status));
    }

    static synchronized void keep(FileStatus status, byte[] data) {
        if (data.length > KEPT_BYTES || isStateFile(status.getPath())) {
            return;
        }
        if (keptBytes + data.length + KEY_BYTES > ALL_KEPT_BYTES) {
            kept.clear();
            keptBytes = 0;
        }
        kept.put(status.getPath() + " " + etag(status), data);
        keptBytes += data.length + KEY_BYTES;
    }

    /** Frees memory, no more: what is kept is found by path and ETag, and so is never served for another content. */
    private static synchronized void dropKept(Path path) {
        Iterator<Map.Entry<String, byte[]>> all = kept.entrySet().iterator();
        while (all.hasNext()) {
            Map.Entry<String, byte[]> each = (Map.Entry<String, byte[]>) all.next();
            if (((String) each.getKey()).startsWith(path.toString())) {
                keptBytes -= ((byte[]) each.getValue()).length + KEY_BYTES;
                all.remove();
            }
        }
    }

    /** What a look has shown. */
    static final class Recent {
        final FileStatus[] files;
        private final FileSystem store;
        private final boolean asDirectory;
        private final long at = System.nanoTime();

        Recent(FileSystem store, FileStatus[] files, boolean asDirectory) {
            this.store = store;
            this.files = files;
            this.asDirectory = asDirectory;
        }

        /** {@code wanted} only tells apart what no caller mixes: logs are looked at as directories, entries as files. */
        boolean serves(FileSystem other, boolean wanted) {
            return store == other && asDirectory == wanted && System.nanoTime() - at < TimeUnit.SECONDS.toNanos(1);
        }
    }

    /** A file as it was seen. What was read ahead goes when the JVM is short of memory, or with the next list. */
    static final class Seen {
        final FileStatus status;
        private final FileSystem store;
        private final long at = System.nanoTime();
        private SoftReference<FutureTask<byte[]>> ahead = null;

        Seen(FileSystem store, FileStatus status) {
            this.store = store;
            this.status = status;
        }

        /** Has it read by another thread. Returns false if there is no thread to be had. */
        boolean begin() {
            if (ahead != null) {
                return true;
            }
            FutureTask<byte[]> reading = reading();
            try {
                RequestSaver.readers().execute(reading);
            } catch (OutOfMemoryError e) { // a limit of threads
                return false;
            }
            ahead = new SoftReference<FutureTask<byte[]>>(reading);
            return true;
        }

        FutureTask<byte[]> reading() {
            FutureTask<byte[]> begun = ahead == null ? null : (FutureTask<byte[]>) ahead.get();
            return begun == null ? new FutureTask<byte[]>(new RequestSaver.Reading(store, status)) : begun;
        }

        boolean isFresh() {
            return System.nanoTime() - at < TimeUnit.SECONDS.toNanos(freshS);
        }
    }

    /** Reads one file. */
    static final class Reading implements Callable<byte[]> {
        private final FileSystem store;
        private final FileStatus status;

        Reading(FileSystem store, FileStatus status) {
            this.store = store;
            this.status = status;
        }

        @Override
        public byte[] call() throws Exception {
            byte[] before = RequestSaver.kept(status);
            if (before != null) {
                return before;
            }
            FutureDataInputStreamBuilder builder = store.openFile(status.getPath());
            builder.withFileStatus(status);
            builder.opt("fs.option.openfile.read.policy", "whole-file");
            byte[] data = new byte[(int) status.getLen()];
            FSDataInputStream in = (FSDataInputStream) builder.build().get();
            try {
                in.readFully(data);
            } finally {
                in.close();
            }
            RequestSaver.keep(status, data);
            return data;
        }
    }

    /** Readers end with the JVM, and when there is nothing to read. */
    static final class Daemons implements ThreadFactory {
        private final AtomicInteger number = new AtomicInteger();

        @Override
        public Thread newThread(Runnable work) {
            Thread made = new Thread(work, "checkpoint-read-ahead-" + number.incrementAndGet());
            made.setDaemon(true);
            return made;
        }
    }

    /** A file that was read as a whole. */
    static final class InMemory extends FSInputStream {
        private final byte[] data;
        private int at = 0;

        InMemory(byte[] data) {
            this.data = data;
        }

        @Override
        public int read() {
            return at < data.length ? data[at++] & 0xff : -1;
        }

        @Override
        public int read(byte[] into, int from, int length) {
            if (length == 0) {
                return 0;
            }
            if (at >= data.length) {
                return -1;
            }
            int taken = Math.min(length, data.length - at);
            System.arraycopy(data, at, into, from, taken);
            at += taken;
            return taken;
        }

        @Override
        public int available() {
            return data.length - at;
        }

        @Override
        public void seek(long to) throws IOException {
            if (to < 0 || to > data.length) {
                throw new EOFException("cannot seek to " + to + " of " + data.length + " bytes");
            }
            at = (int) to;
        }

        @Override
        public long getPos() {
            return at;
        }

        @Override
        public boolean seekToNewSource(long to) {
            return false;
        }
    }
}
