import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics of which compaction left little to their end.  Arguments: the broker, then topic=key,key,... with the keys to be seen.
 * Prints one line per topic and isolation level and ends with 1 when one of them fails.
 */
public final class Compacted {
    private static final long WAIT_MS = 20_000;

    private Compacted() {}

    public static void main(String[] arguments) {
        int failures = 0;
        for (String wanted : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            String[] parts = wanted.split("=");
            for (String isolation : List.of("read_uncommitted", "read_committed")) {
                String name = parts[0] + " is read to its end, " + isolation;
                try {
                    List<String> keys = keysOf(arguments[0], parts[0], isolation);
                    if (!keys.equals(Arrays.asList(parts[1].split(",")))) {
                        throw new AssertionError("the keys are " + keys);
                    }
                    System.out.println("ok      " + name);
                } catch (Throwable error) {
                    failures++;
                    System.out.println("FAILED  " + name + ": " + error);
                }
            }
        }
        System.exit(failures == 0 ? 0 : 1);
    }

    private static List<String> keysOf(String bootstrap, String topic, String isolation) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation);
        TopicPartition partition = new TopicPartition(topic, 0);
        LinkedHashSet<String> keys = new LinkedHashSet<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long deadline = System.currentTimeMillis() + WAIT_MS;
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    keys.add(new String(record.key(), StandardCharsets.UTF_8));
                }
                if (System.currentTimeMillis() > deadline) {
                    throw new AssertionError("stuck at " + consumer.position(partition) + " before the end, " + end);
                }
            }
        }
        return new ArrayList<>(keys);
    }
}
