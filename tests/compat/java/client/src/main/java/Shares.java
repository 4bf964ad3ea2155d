import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Share groups (KIP-932) by the official client.  Each story has a topic and a group of its own, of the same name. */
final class Shares {
    private static final Duration WAIT = Duration.ofSeconds(40);
    private static final Duration POLL = Duration.ofMillis(200);

    private final String bootstrap;

    Shares(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void implicit() throws Exception {
        String topic = create("java-shares-implicit", Map.of());
        write(topic, 0, 10, null);
        try (var first = consumer(topic, Map.of())) {
            requireEqual(numbers(0, 10), taken(first, 10));
            first.poll(POLL);
        }
        write(topic, 10, 12, null);
        try (var second = consumer(topic, Map.of())) {
            requireEqual(numbers(10, 12), taken(second, 2));
        }
    }

    void explicit() throws Exception {
        String topic = create("java-shares-explicit", Map.of());
        write(topic, 0, 3, null);
        try (var consumer = consumer(topic, Map.of("share.acknowledgement.mode", "explicit"))) {
            List<String> seen = new ArrayList<>();
            until(() -> {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    int count = record.deliveryCount().get();
                    seen.add(record.value() + "x" + count);
                    boolean again = record.value().equals("1") && count == 1;
                    AcknowledgeType rest = record.value().equals("2") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
                    consumer.acknowledge(record, again ? AcknowledgeType.RELEASE : rest);
                }
                return consumer.commitSync().values().stream().allMatch(error -> error.isEmpty()) && seen.size() >= 4;
            }, "four deliveries");
            requireEqual(List.of("0x1", "1x1", "2x1", "1x2"), seen);
            requireEqual(0, consumer.poll(Duration.ofSeconds(1)).count());
        }
    }

    void together() throws Exception {
        String topic = create("java-shares-together", Map.of());
        Map<String, Object> few = Map.of("max.poll.records", 5, "share.acquire.mode", "record_limit");
        try (var first = consumer(topic, few); var second = consumer(topic, few)) {
            first.poll(POLL);
            second.poll(POLL);
            List<String> ofFirst = new ArrayList<>();
            List<String> ofSecond = new ArrayList<>();
            int[] written = {0};
            until(() -> {
                write(topic, written[0], written[0] + 10, null);
                written[0] += 10;
                first.poll(POLL).forEach(record -> ofFirst.add(record.value()));
                second.poll(POLL).forEach(record -> ofSecond.add(record.value()));
                return !ofFirst.isEmpty() && !ofSecond.isEmpty();
            }, "both have records");
            until(() -> {
                first.poll(POLL).forEach(record -> ofFirst.add(record.value()));
                second.poll(POLL).forEach(record -> ofSecond.add(record.value()));
                return ofFirst.size() + ofSecond.size() >= written[0];
            }, "all records");
            Set<String> all = new TreeSet<>(ofFirst);
            all.addAll(ofSecond);
            requireEqual(numbers(0, written[0]), all);
            requireEqual(written[0], ofFirst.size() + ofSecond.size());
        }
    }

    void renew() throws Exception {
        String topic = create("java-shares-renew", Map.of("share.record.lock.duration.ms", "15000"));
        write(topic, 0, 1, null);
        Map<String, Object> explicit = Map.of("share.acknowledgement.mode", "explicit");
        try (var slow = consumer(topic, explicit); var other = consumer(topic, Map.of())) {
            List<ConsumerRecord<String, String>> held = new ArrayList<>();
            until(() -> {
                slow.poll(POLL).forEach(held::add);
                return !held.isEmpty();
            }, "a record");
            long end = System.nanoTime() + Duration.ofSeconds(18).toNanos();
            while (System.nanoTime() < end) {
                slow.acknowledge(held.get(0), AcknowledgeType.RENEW);
                slow.commitSync();
                requireEqual(0, other.poll(Duration.ofSeconds(3)).count());
                slow.poll(POLL);
            }
            slow.acknowledge(held.get(0), AcknowledgeType.ACCEPT);
            slow.commitSync();
            requireEqual(0, other.poll(Duration.ofSeconds(1)).count());
        }
    }

    void committed() throws Exception {
        String topic = create("java-shares-committed", Map.of("share.isolation.level", "read_committed"));
        write(topic, 0, 3, true);
        write(topic, 3, 6, false);
        write(topic, 6, 9, true);
        try (var consumer = consumer(topic, Map.of())) {
            Set<String> wanted = numbers(0, 3);
            wanted.addAll(numbers(6, 9));
            requireEqual(wanted, taken(consumer, 6));
        }
    }

    void strictly() throws Exception {
        String topic = create("java-shares-strictly", Map.of());
        write(topic, 0, 10, null);
        try (var consumer = consumer(topic, Map.of("max.poll.records", 3, "share.acquire.mode", "record_limit"))) {
            Set<String> seen = new TreeSet<>();
            until(() -> {
                var records = consumer.poll(POLL);
                require(records.count() <= 3, "three at most");
                records.forEach(record -> seen.add(record.value()));
                return seen.size() == 10;
            }, "all ten");
        }
    }

    void administer() throws Exception {
        String topic = create("java-shares-administer", Map.of());
        write(topic, 0, 4, null);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            try (var consumer = consumer(topic, Map.of())) {
                requireEqual(numbers(0, 4), taken(consumer, 4));
                consumer.poll(POLL);
                var described = admin.describeShareGroups(List.of(topic)).describedGroups().get(topic).get();
                requireEqual(GroupState.STABLE, described.groupState());
                requireEqual(1, described.members().size());
            }
            var offsets = admin.listShareGroupOffsets(Map.of(topic, new ListShareGroupOffsetsSpec()))
                .partitionsToOffsetInfo(topic).get();
            requireEqual(4L, offsets.get(new TopicPartition(topic, 0)).startOffset());
            admin.alterShareGroupOffsets(topic, Map.of(new TopicPartition(topic, 0), 2L)).all().get();
            try (var consumer = consumer(topic, Map.of())) {
                requireEqual(numbers(2, 4), taken(consumer, 2));
            }
            admin.deleteShareGroups(List.of(topic)).all().get();
        }
    }

    // --- parts of stories

    private String create(String topic, Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            Map<String, String> all = new HashMap<>(settings);
            all.put("share.auto.offset.reset", "earliest");
            Collection<AlterConfigOp> changes = new ArrayList<>();
            all.forEach((name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, topic), changes)).all().get();
        }
        return topic;
    }

    /** In a transaction that is committed or not; without one where that is null. */
    private void write(String topic, int from, int to, Boolean commits) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        if (commits != null) {
            settings.put("transactional.id", topic);
        }
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (commits != null) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int number = from; number < to; number++) {
                producer.send(new ProducerRecord<>(topic, String.valueOf(number)));
            }
            producer.flush();
            if (commits != null && commits) {
                producer.commitTransaction();
            } else if (commits != null) {
                producer.abortTransaction();
            }
        }
    }

    private KafkaShareConsumer<String, String> consumer(String topic, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", topic));
        settings.putAll(more);
        var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(Set.of(topic));
        return consumer;
    }

    private static Set<String> taken(KafkaShareConsumer<String, String> consumer, int count) throws Exception {
        Set<String> taken = new TreeSet<>();
        until(() -> {
            consumer.poll(POLL).forEach(record -> taken.add(record.value()));
            return taken.size() >= count;
        }, count + " records");
        return taken;
    }

    private static Set<String> numbers(int from, int to) {
        Set<String> numbers = new TreeSet<>();
        for (int number = from; number < to; number++) {
            numbers.add(String.valueOf(number));
        }
        return numbers;
    }

    private static void until(BooleanSupplier holds, String what) {
        long end = System.nanoTime() + WAIT.toNanos();
        while (!holds.getAsBoolean()) {
            require(System.nanoTime() < end, "in " + WAIT.toSeconds() + " s: " + what);
        }
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("not " + what);
        }
    }

    private static void requireEqual(Object wanted, Object found) {
        require(Objects.equals(wanted, found), wanted + ", but " + found);
    }
}
