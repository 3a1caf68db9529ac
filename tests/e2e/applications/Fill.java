import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Runs out of what its argument names, or crashes. */
public class Fill {
  interface Small { void run(); }

  public static void main(String[] args) throws Exception {
    List<Object> kept = new ArrayList<>();
    switch (args[0]) {
      case "heap": while (true) kept.add(new long[100_000]);
      case "direct": while (true) kept.add(ByteBuffer.allocateDirect(1 << 20));
      case "array": kept.add(new long[Integer.MAX_VALUE]); break;
      case "metaspace":
        URL here = Fill.class.getProtectionDomain().getCodeSource().getLocation();
        while (true) {
          ClassLoader loader = new URLClassLoader(new URL[] {here}, null);
          Class<?> small = loader.loadClass("Fill$Small");
          kept.add(Proxy.newProxyInstance(loader, new Class<?>[] {small}, (p, m, a) -> null));
        }
      case "crash":
        new ProcessBuilder("kill", "-SEGV", String.valueOf(ProcessHandle.current().pid())).start().waitFor();
        Thread.sleep(60_000);
      default: throw new IllegalArgumentException(args[0]);
    }
  }
}
