import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.TreeMap;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import static org.apache.spark.sql.functions.*;

/** counts.py for the JVM: same rows, same aggregates, same witness; the checkpoint is its argument. */
public final class Counts {
    private static final int ROWS_PER_BATCH = 30;
    private static final int KEYS = 3;

    public static void main(String[] args) throws Exception {
        String stat = Files.readString(Path.of("/proc/self/stat"));
        String born = stat.substring(stat.lastIndexOf(')') + 2).split(" ")[19];
        note("start", Long.parseLong(born) / 100.0, "");
        Thread beats = new Thread(Counts::beat);
        beats.setDaemon(true);
        beats.start();

        SparkSession spark = SparkSession.builder().getOrCreate();
        Dataset<Row> rows = spark.readStream().format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH).load();
        Dataset<Row> counts = rows.groupBy(col("value").mod(KEYS).as("key")).agg(count("*"), sum("value"));
        counts.writeStream().outputMode("complete").option("checkpointLocation", args[0])
            .trigger(org.apache.spark.sql.streaming.Trigger.ProcessingTime("2 seconds"))
            .foreachBatch((VoidFunction2<Dataset<Row>, Long>) Counts::write)
            .start().awaitTermination();
    }

    private static void write(Dataset<Row> batch, Long id) throws Exception {
        TreeMap<Long, String> found = new TreeMap<>();
        for (Row row : batch.collectAsList()) {
            found.put(row.getLong(0), "\"" + row.getLong(0) + "\": [" + row.getLong(1) + ", " + row.getLong(2) + "]");
        }
        String counts = String.join(", ", found.values());
        note("batch", now(), ", \"batch_id\": " + id + ", \"counts\": {" + counts + "}");
    }

    private static void beat() {
        try {
            while (true) {
                Thread.sleep(100);
                note("beat", now(), "");
            }
        } catch (Exception ended) {
            throw new IllegalStateException(ended);
        }
    }

    private static double now() throws Exception {
        return Double.parseDouble(Files.readString(Path.of("/proc/uptime")).split(" ")[0]);
    }

    private static void note(String event, double boottime, String more) throws Exception {
        String line = String.format(
            java.util.Locale.ROOT,
            "{\"event\": \"%s\", \"job\": \"%s\", \"uid\": \"%s\", \"attempt\": %s, \"pid\": %d, \"boottime\": %.2f%s}%n",
            event, System.getenv("SPARK_SUPERVISOR_JOB"), System.getenv("SPARK_SUPERVISOR_UID"),
            System.getenv("SPARK_SUPERVISOR_ATTEMPT"), ProcessHandle.current().pid(), boottime, more);
        Path witness = Path.of(System.getenv("WITNESS"));
        Files.writeString(witness, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}
