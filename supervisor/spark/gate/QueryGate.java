package supervisor.spark.gate;

import java.io.File;
import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.ProtectionDomain;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Holds every query of this JVM until the opening of its prepared driver, whoever starts it: Python, Scala, Java, SQL.
 *
 * It is a Java agent: each method in Spark by which a query starts asks {@code pass} first. Nothing of an application's
 * configuration can take that away. Whether this Spark's methods are those is not taken for granted: {@code why} says it,
 * after a query has passed here. It is closed from the start; the bootstrap lets its own throwaway query pass, and opens. In a JVM
 * that no bootstrap attends (one that the application starts with the driver's properties) the opening's file decides.
 * Compiled by Janino on the user's host: no lambdas, no generic methods, no nested type by its short name.
 */
public final class QueryGate implements ClassFileTransformer {
    private static final String NAME = "supervisor/spark/gate/QueryGate";
    private static final Pattern BEFORE = Pattern.compile("\"before_at_s\"\\s*:\\s*([0-9.]+)");
    private static final long PAUSE_MS = 50;
    private static final Map<String, String[]> METHODS = new HashMap<String, String[]>();
    private static final Set<String> asking = new HashSet<String>();
    private static final Set<String> passed = new HashSet<String>();
    private static String opening = "";
    private static Instrumentation instrumentation = null;
    private static QueryGate transformer = null;
    private static boolean attended = false;
    private static boolean letting = false;
    private static boolean isOpen = false;
    private static int waiting = 0;

    static {
        String[] manager = new String[] {"startQuery"};
        String[] writer = new String[] {"start", "toTable"};
        METHODS.put("org/apache/spark/sql/streaming/StreamingQueryManager", manager);
        METHODS.put("org/apache/spark/sql/classic/StreamingQueryManager", manager);
        METHODS.put("org/apache/spark/sql/streaming/DataStreamWriter", writer);
        METHODS.put("org/apache/spark/sql/classic/DataStreamWriter", writer);
        METHODS.put("org/apache/spark/streaming/StreamingContext", new String[] {"start"});
    }

    public static void premain(String path, Instrumentation given) {
        opening = path == null ? "" : path;
        instrumentation = given;
        transformer = new QueryGate();
        given.addTransformer(transformer);
    }

    /** Is asked by each method that starts a query. */
    public static void pass(String method) {
        synchronized (QueryGate.class) {
            passed.add(method);
            if (isOpen || letting) {
                return;
            }
            waiting++;
            QueryGate.class.notifyAll();
            while (!isOpen) {
                if (!attended && isOpenedByFile()) {
                    open();
                    break;
                }
                try {
                    QueryGate.class.wait(attended ? 0 : PAUSE_MS);
                } catch (InterruptedException e) {
                    waiting--;
                    throw new IllegalStateException("interrupted while it waited for the opening of its driver");
                }
            }
            waiting--;
        }
    }

    private static boolean isOpenedByFile() {
        try {
            String text = new String(Files.readAllBytes(new File(opening).toPath()), StandardCharsets.UTF_8);
            String up = new String(Files.readAllBytes(new File("/proc/uptime").toPath()), StandardCharsets.UTF_8);
            Matcher before = BEFORE.matcher(text);
            return before.find() && Double.parseDouble(up.split(" ")[0]) < Double.parseDouble(before.group(1));
        } catch (IOException e) {
            return false;
        }
    }

    /** The bootstrap is here: it alone opens. While {@code own} is set, what it runs itself passes. */
    public static synchronized void attend(boolean own) {
        attended = true;
        letting = own;
    }

    public static synchronized boolean isOpen() {
        return isOpen;
    }

    /** From now on classes are loaded as without this agent. */
    public static synchronized void open() {
        isOpen = true;
        if (transformer != null) {
            instrumentation.removeTransformer(transformer);
            transformer = null;
        }
        QueryGate.class.notifyAll();
    }

    /** Returns whether a query waits; it returns at once if one does, else after {@code timeoutMs} or when it is open. */
    public static synchronized boolean awaitArrival(long timeoutMs) throws InterruptedException {
        if (waiting == 0 && !isOpen) {
            QueryGate.class.wait(timeoutMs);
        }
        return waiting > 0;
    }

    /** Returns why not every query is held in this Spark; empty if each is. A query must have passed before. */
    public static synchronized String why() {
        if (!passed.contains("startQuery")) {
            return "a query did not pass StreamingQueryManager.startQuery";
        }
        try {
            Class.forName("org.apache.spark.streaming.StreamingContext", false, QueryGate.class.getClassLoader());
        } catch (ClassNotFoundException e) {
            return ""; // this Spark has no DStreams
        }
        return asking.contains("org/apache/spark/streaming/StreamingContext.start") ? "" : "StreamingContext.start is not as expected";
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> was, ProtectionDomain domain, byte[] bytes) {
        String[] methods = name == null ? null : (String[]) METHODS.get(name);
        if (methods == null) {
            return null;
        }
        try {
            ClassReader reader = new ClassReader(bytes);
            ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
            reader.accept(new QueryGate.Asking(writer, name, methods), 0);
            return writer.toByteArray();
        } catch (Throwable e) {
            System.err.println("spark-supervisor: queries of " + name + " are not held: " + e);
            return null;
        }
    }

    static synchronized void asks(String method) {
        asking.add(method);
    }

    static final class Asking extends ClassVisitor {
        private final String owner;
        private final String[] methods;

        Asking(ClassVisitor next, String owner, String[] methods) {
            super(Opcodes.ASM9, next);
            this.owner = owner;
            this.methods = methods;
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, name, descriptor, signature, exceptions);
            for (int i = 0; i < methods.length; i++) {
                if (methods[i].equals(name) && (access & Opcodes.ACC_ABSTRACT) == 0) {
                    asks(owner + "." + name);
                    return new QueryGate.First(next, name);
                }
            }
            return next;
        }
    }

    static final class First extends MethodVisitor {
        private final String name;

        First(MethodVisitor next, String name) {
            super(Opcodes.ASM9, next);
            this.name = name;
        }

        @Override
        public void visitCode() {
            super.visitCode();
            visitLdcInsn(name);
            visitMethodInsn(Opcodes.INVOKESTATIC, NAME, "pass", "(Ljava/lang/String;)V", false);
        }
    }
}
