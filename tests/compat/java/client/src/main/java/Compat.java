import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What the official client does with a broker.  Prints one line per story and ends with 1 when one of them fails. */
public final class Compat {
    private static final int MEBIBYTE = 1 << 20;
    private static final long FIRST_TIME = 1_700_000_000_000L;
    private static final Duration WAIT = Duration.ofSeconds(20);

    private final String bootstrap;
    private int failures = 0;

    private Compat(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) {
        Compat compat = new Compat(arguments[0]);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            compat.tell("records of every shape come back, " + codec, () -> compat.roundTrip(codec));
        }
        compat.tell("a seek by time finds the first record at or after it", compat::seekByTime);
        compat.tell("what it administers is read back", compat::administer);
        for (String protocol : List.of("classic", "consumer")) {
            compat.tell("a group reads and goes on where it stopped, protocol " + protocol, () -> compat.group(protocol));
        }
        compat.tell("read_committed shows what was committed and not what was aborted", compat::transactions);
        Coordination coordination = new Coordination(arguments[0]);
        for (String protocol : List.of("classic", "consumer")) {
            compat.tell("members share and take over, protocol " + protocol, () -> coordination.share(protocol));
            compat.tell("a static member comes back, protocol " + protocol, () -> coordination.staticMember(protocol));
        }
        compat.tell("a group moves between the protocols", coordination::migrate);
        compat.tell("a pattern is resolved by the broker", coordination::pattern);
        compat.tell("groups and their offsets are administered", coordination::administerGroups);
        compat.tell("consume, transform, produce in transactions", coordination::transform);
        compat.tell("a second producer fences the first", coordination::fence);
        compat.tell("an open transaction is seen and ended by force", coordination::administerTransactions);
        Shares shares = new Shares(arguments[0]);
        compat.tell("a share consumer accepts what it polled with its next poll", shares::implicit);
        compat.tell("released records come again, rejected ones do not, and deliveries are counted", shares::explicit);
        compat.tell("two share consumers part the records of one partition", shares::together);
        compat.tell("a lock that is renewed does not run out", shares::renew);
        compat.tell("with read_committed a share consumer gets what was committed alone", shares::committed);
        compat.tell("no more records than asked for come where that is meant strictly", shares::strictly);
        compat.tell("share groups are administered", shares::administer);
        System.exit(compat.failures == 0 ? 0 : 1);
    }

    private interface Story {
        void tell() throws Exception;
    }

    private void tell(String name, Story story) {
        try {
            story.tell();
            System.out.println("ok      " + name);
        } catch (Throwable error) {
            failures++;
            System.out.println("FAILED  " + name + ": " + error);
        }
    }

    private record Sent(byte[] key, byte[] value, List<Header> headers) {}

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static List<Sent> shapes() {
        byte[] noise = new byte[MEBIBYTE];
        new Random(2026).nextBytes(noise);
        List<Header> headers = List.of(
            new RecordHeader("trace", bytes("1234")), new RecordHeader("empty", new byte[0]), new RecordHeader("nothing", null));
        return List.of(
            new Sent(bytes("key"), bytes("value"), List.of()),
            new Sent(null, bytes("no key"), List.of()),
            new Sent(bytes("tombstone"), null, List.of()),
            new Sent(null, null, List.of()),
            new Sent(bytes("empty value"), new byte[0], List.of()),
            new Sent(bytes("one mebibyte"), noise, List.of()),
            new Sent(bytes("one byte"), bytes("x"), headers));
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        settings.putAll(more);
        return settings;
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> settings = settings(Map.of("max.request.size", 2 * MEBIBYTE, "linger.ms", 20));
        settings.putAll(more);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> settings = settings(Map.of("auto.offset.reset", "earliest", "enable.auto.commit", false));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void create(String topic, int partitions, Map<String, String> configs) throws Exception {
        try (Admin admin = Admin.create(settings(Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> take(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (got.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(got::add);
        }
        return got;
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    private static void requireEqual(Object expected, Object actual) {
        require(Objects.equals(expected, actual), "expected " + expected + ", got " + actual);
    }

    private void roundTrip(String codec) throws Exception {
        String topic = "java-" + codec;
        create(topic, 1, Map.of("max.message.bytes", String.valueOf(2 * MEBIBYTE)));
        List<Sent> sent = shapes();
        try (var producer = producer(Map.of("compression.type", codec))) {
            for (Sent each : sent) {
                producer.send(new ProducerRecord<>(topic, 0, null, each.key, each.value, each.headers));
            }
        }
        try (var consumer = consumer(Map.of("max.partition.fetch.bytes", 1000))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            List<ConsumerRecord<byte[], byte[]>> got = take(consumer, sent.size());
            requireEqual(sent.size(), got.size());
            for (int number = 0; number < sent.size(); number++) {
                requireEqual((long) number, got.get(number).offset());
                require(Arrays.equals(sent.get(number).key, got.get(number).key()), "the key of record " + number + " differs");
                require(Arrays.equals(sent.get(number).value, got.get(number).value()), "the value of record " + number + " differs");
                requireEqual(sent.get(number).headers, List.of(got.get(number).headers().toArray()));
            }
        }
    }

    private void seekByTime() throws Exception {
        create("java-time", 1, Map.of());
        try (var producer = producer(Map.of("linger.ms", 0))) {
            for (int minute = 0; minute < 5; minute++) {
                producer.send(new ProducerRecord<>("java-time", 0, FIRST_TIME + minute * 60_000L, null, bytes("" + minute))).get();
            }
        }
        TopicPartition partition = new TopicPartition("java-time", 0);
        try (var consumer = consumer(Map.of())) {
            var found = consumer.offsetsForTimes(Map.of(partition, FIRST_TIME + 60_001)).get(partition);
            requireEqual(2L, found.offset());
            requireEqual(FIRST_TIME + 120_000, found.timestamp());
            require(consumer.offsetsForTimes(Map.of(partition, FIRST_TIME + 600_000)).get(partition) == null, "found past the end");
            consumer.assign(List.of(partition));
            consumer.seek(partition, found.offset());
            requireEqual("2", new String(take(consumer, 3).get(0).value(), StandardCharsets.UTF_8));
        }
        try (Admin admin = Admin.create(settings(Map.of()))) {
            var newest = admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get();
            requireEqual(4L, newest.offset());
            requireEqual(FIRST_TIME + 240_000, newest.timestamp());
        }
    }

    private void administer() throws Exception {
        String topic = "java-admin";
        create(topic, 2, Map.of("retention.ms", "3600000"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = Admin.create(settings(Map.of())); var producer = producer(Map.of())) {
            requireEqual("3600000", value(admin, resource, "retention.ms"));
            Collection<AlterConfigOp> changes =
                List.of(new AlterConfigOp(new ConfigEntry("max.message.bytes", "5000"), AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
            requireEqual("5000", value(admin, resource, "max.message.bytes"));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
            requireEqual(4, admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            RecordMetadata last = null;
            for (int number = 0; number < 10; number++) {
                last = producer.send(new ProducerRecord<>(topic, 0, null, bytes("" + number))).get();
            }
            requireEqual(9L, last.offset());
            TopicPartition partition = new TopicPartition(topic, 0);
            var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(6)));
            requireEqual(6L, deleted.lowWatermarks().get(partition).get().lowWatermark());
            requireEqual(6L, admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition).get().offset());
            require(!admin.describeCluster().nodes().get().isEmpty(), "the cluster has no nodes");
            admin.deleteTopics(List.of(topic)).all().get();
            require(!admin.listTopics().names().get().contains(topic), "a deleted topic is listed");
        }
    }

    private static String value(Admin admin, ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    private void group(String protocol) throws Exception {
        String topic = "java-group-" + protocol;
        create(topic, 3, Map.of());
        Map<String, Object> member = Map.of("group.id", topic, "group.protocol", protocol);
        for (int round = 0; round < 2; round++) {
            try (var producer = producer(Map.of())) {
                for (int number = 0; number < 30; number++) {
                    producer.send(new ProducerRecord<>(topic, number % 3, null, bytes(round + "-" + number)));
                }
            }
            try (var consumer = consumer(member)) {
                consumer.subscribe(Set.of(topic));
                List<ConsumerRecord<byte[], byte[]>> got = take(consumer, 30);
                requireEqual(30, got.size());
                for (var each : got) {
                    require(new String(each.value(), StandardCharsets.UTF_8).startsWith(round + "-"), "read twice: " + each.offset());
                }
                consumer.commitSync();
            }
        }
    }

    private void transactions() throws Exception {
        create("java-transactions", 1, Map.of());
        try (var producer = producer(Map.of("transactional.id", "java-compat"))) {
            producer.initTransactions();
            for (String outcome : List.of("commit", "abort", "commit")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("java-transactions", 0, null, bytes(outcome))).get();
                if (outcome.equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        requireEqual(List.of("commit", "commit"), valuesSeen("read_committed", 2));
        requireEqual(List.of("commit", "abort", "commit"), valuesSeen("read_uncommitted", 3));
    }

    private List<String> valuesSeen(String isolation, int count) {
        try (var consumer = consumer(Map.of("isolation.level", isolation))) {
            consumer.assign(List.of(new TopicPartition("java-transactions", 0)));
            return take(consumer, count).stream().map(each -> new String(each.value(), StandardCharsets.UTF_8)).toList();
        }
    }
}
