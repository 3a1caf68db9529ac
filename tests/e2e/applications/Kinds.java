import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.Trigger;

/** kinds.py for the JVM: a query whose source has nothing new, one that hangs in a batch. */
public final class Kinds {
    public static void main(String[] args) throws Exception {
        SparkSession spark = SparkSession.builder().getOrCreate();
        DataStreamWriter<Row> writer;
        if (args[0].equals("idle")) {
            Files.createDirectories(Path.of(args[2]));
            Files.writeString(Path.of(args[2], "only.txt"), "all there is\n");
            writer = spark.readStream().format("text").load(args[2]).writeStream().format("noop")
                .trigger(Trigger.ProcessingTime("1 second"));
        } else {
            Dataset<Row> rates = spark.readStream().format("rate-micro-batch").option("rowsPerBatch", 1).load();
            writer = rates.writeStream().foreachBatch((VoidFunction2<Dataset<Row>, Long>) Kinds::hang);
        }
        writer.option("checkpointLocation", args[1]).start().awaitTermination();
    }

    private static void hang(Dataset<Row> batch, Long id) throws Exception {
        if (id >= 2) {
            Thread.sleep(3_600_000);
        }
    }
}
