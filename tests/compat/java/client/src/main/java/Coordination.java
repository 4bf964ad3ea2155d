import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Groups and transactions by the official client, whose transactions are of version 2 and whose groups are of either protocol. */
final class Coordination {
    private static final Duration WAIT = Duration.ofSeconds(40);
    private static final Duration POLL = Duration.ofMillis(100);

    private final String bootstrap;

    Coordination(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    // --- groups

    /** Two members share ten partitions, one leaves and the other has them all, in either protocol. */
    void share(String protocol) throws Exception {
        String topic = create("java-share-" + protocol, 10);
        try (var first = consumer(topic, protocol, Map.of()); var second = consumer(topic, protocol, Map.of())) {
            first.subscribe(Set.of(topic));
            second.subscribe(Set.of(topic));
            List<KafkaConsumer<String, String>> both = List.of(first, second);
            pollUntil(both, () -> first.assignment().size() == 5 && second.assignment().size() == 5, "five each");
            second.close();
            pollUntil(List.of(first), () -> first.assignment().size() == 10, "all ten");
        }
    }

    /** A group with members moves from the classic to the consumer protocol and back, and its offsets with it. */
    void migrate() throws Exception {
        String topic = create("java-migrate", 4);
        write(topic, 4, 8);
        try (var old = consumer(topic, "classic", Map.of()); var young = consumer(topic, "consumer", Map.of())) {
            old.subscribe(Set.of(topic));
            pollUntil(List.of(old), () -> old.assignment().size() == 4, "the classic member has all");
            requireEqual(GroupType.CLASSIC, typeOf(topic));
            young.subscribe(Set.of(topic));
            List<KafkaConsumer<String, String>> both = List.of(old, young);
            pollUntil(both, () -> old.assignment().size() == 2 && young.assignment().size() == 2, "two each");
            requireEqual(GroupType.CONSUMER, typeOf(topic));
            old.commitSync();
            young.commitSync();
            young.close();
            pollUntil(List.of(old), () -> old.assignment().size() == 4, "the classic member has all again");
            requireEqual(GroupType.CLASSIC, typeOf(topic));
        }
    }

    /** A pattern is resolved by the broker; one that is none is refused. */
    void pattern() throws Exception {
        String one = create("java-pattern-1", 1);
        String two = create("java-pattern-2", 2);
        create("java-other", 1);
        try (var member = consumer("java-patterns", "consumer", Map.of())) {
            member.subscribe(new SubscriptionPattern("java-pattern-[0-9]"));
            pollUntil(List.of(member), () -> member.assignment().size() == 3, "both topics");
            requireEqual(Set.of(one, two), member.assignment().stream().map(TopicPartition::topic).collect(Collectors.toSet()));
        }
        try (var member = consumer("java-bad-pattern", "consumer", Map.of())) {
            member.subscribe(new SubscriptionPattern("java-["));
            pollUntil(List.of(member), () -> false, "the refusal of a pattern that is none");
            throw new AssertionError("a pattern that is none was taken");
        } catch (InvalidRegularExpression expected) {
            return;
        }
    }

    /** A static member that comes back has its partitions at once; an administrator can take it out by its name. */
    void staticMember(String protocol) throws Exception {
        String topic = create("java-static-" + protocol, 4);
        Map<String, Object> named = Map.of("group.instance.id", "one");
        try (var other = consumer(topic, protocol, Map.of("group.instance.id", "two"))) {
            other.subscribe(Set.of(topic));
            Set<TopicPartition> had;
            try (var member = consumer(topic, protocol, named)) {
                member.subscribe(Set.of(topic));
                pollUntil(List.of(member, other), () -> member.assignment().size() == 2 && other.assignment().size() == 2, "two each");
                had = Set.copyOf(member.assignment());
            }
            Set<TopicPartition> kept = Set.copyOf(other.assignment());
            try (var again = consumer(topic, protocol, named)) {
                again.subscribe(Set.of(topic));
                pollUntil(List.of(again, other), () -> again.assignment().equals(had), "what it had");
                requireEqual(kept, other.assignment());
            }
            if (protocol.equals("classic")) {
                try (Admin admin = admin()) {
                    var who = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")));
                    admin.removeMembersFromConsumerGroup(topic, who).all().get();
                }
                pollUntil(List.of(other), () -> other.assignment().size() == 4, "all, now that the other is removed");
            }
        }
    }

    /** What an administrator sees of groups and does to their offsets. */
    void administerGroups() throws Exception {
        String topic = create("java-group-admin", 2);
        String spare = create("java-group-spare", 1);
        write(topic, 2, 4);
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition unread = new TopicPartition(spare, 0);
        try (Admin admin = admin()) {
            try (var member = consumer(topic, "consumer", Map.of())) {
                member.subscribe(Set.of(topic));
                pollUntil(List.of(member), () -> member.assignment().size() == 2, "its partitions");
                member.commitSync(Map.of(zero, new OffsetAndMetadata(1, "a note"), unread, new OffsetAndMetadata(7)));
                var described = admin.describeConsumerGroups(List.of(topic)).describedGroups().get(topic).get();
                requireEqual(GroupState.STABLE, described.groupState());
                requireEqual(2, described.members().iterator().next().assignment().topicPartitions().size());
                requireEqual(
                    GroupSubscribedToTopicException.class,
                    failure(() -> admin.deleteConsumerGroupOffsets(topic, Set.of(zero)).partitionResult(zero).get()));
                admin.deleteConsumerGroupOffsets(topic, Set.of(unread)).partitionResult(unread).get();
                requireEqual(GroupNotEmptyException.class, failure(() -> admin.deleteConsumerGroups(List.of(topic)).all().get()));
            }
            var offsets = admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
            requireEqual(Map.of(zero, new OffsetAndMetadata(1, "a note")), offsets);
            admin.alterConsumerGroupOffsets(topic, Map.of(zero, new OffsetAndMetadata(0))).all().get();
            requireEqual(0L, admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().get(zero).offset());
            admin.deleteConsumerGroups(List.of(topic)).all().get();
            require(admin.listGroups().all().get().stream().noneMatch(group -> group.groupId().equals(topic)), "a deleted group is listed");
        }
    }

    // --- transactions

    /** Consume, transform, produce: offsets and records go together, an aborted round leaves nothing behind. */
    void transform() throws Exception {
        String source = create("java-source", 2);
        String target = create("java-target", 2);
        write(source, 2, 40);
        try (var member = consumer(source, "consumer", Map.of("max.poll.records", 10)); var producer = transactional("java-transform")) {
            producer.initTransactions();
            member.subscribe(Set.of(source));
            int done = 0;
            for (int round = 0; done < 40; round++) {
                ConsumerRecords<String, String> records = member.poll(Duration.ofSeconds(5));
                producer.beginTransaction();
                records.forEach(each -> producer.send(new ProducerRecord<>(target, each.partition(), null, each.value() + "!")));
                producer.sendOffsetsToTransaction(records.nextOffsets(), member.groupMetadata());
                if (round % 2 == 0) {
                    producer.abortTransaction();
                    for (TopicPartition partition : member.assignment()) {
                        OffsetAndMetadata committed = member.committed(Set.of(partition)).get(partition);
                        member.seek(partition, committed == null ? 0 : committed.offset());
                    }
                } else {
                    producer.commitTransaction();
                    done += records.count();
                }
            }
        }
        Set<String> expected = new HashSet<>();
        for (int number = 0; number < 40; number++) {
            expected.add(number + "!");
        }
        List<String> seen = readAll(target, 2, 40);
        requireEqual(40, seen.size());
        requireEqual(expected, new HashSet<>(seen));
    }

    /** A second producer with the same id fences the first, whose open transaction is aborted. */
    void fence() throws Exception {
        String topic = create("java-fence", 1);
        try (var first = transactional("java-fenced"); var second = transactional("java-fenced")) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, "from the first")).get();
            second.initTransactions();
            second.beginTransaction();
            second.send(new ProducerRecord<>(topic, "from the second")).get();
            second.commitTransaction();
            Class<?> refused = failure(() -> {
                first.send(new ProducerRecord<>(topic, "from a zombie")).get();
                return null;
            });
            require(
                refused == ProducerFencedException.class || refused == InvalidProducerEpochException.class,
                "a zombie heard " + refused);
        }
        requireEqual(List.of("from the second"), readAll(topic, 1, 1));
    }

    /** An administrator sees an open transaction everywhere it shows, and ends it by force. */
    void administerTransactions() throws Exception {
        String topic = create("java-open", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = admin(); var producer = transactional("java-open-id")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "never committed")).get();
            var ongoing = new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING)).filterOnTransactionalIdPattern("java-open.*");
            requireEqual(1, admin.listTransactions(ongoing).all().get().size());
            var described = admin.describeTransactions(List.of("java-open-id")).description("java-open-id").get();
            requireEqual(TransactionState.ONGOING, described.state());
            requireEqual(Set.of(partition), described.topicPartitions());
            var writers = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
            var writer = writers.iterator().next();
            requireEqual(0L, writer.currentTransactionStartOffset().orElse(-1));
            admin.abortTransaction(new AbortTransactionSpec(
                partition, writer.producerId(), (short) writer.producerEpoch(), writer.coordinatorEpoch().orElse(0))).all().get();
            writers = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
            require(writers.iterator().next().currentTransactionStartOffset().isEmpty(), "the transaction is still open");
            admin.fenceProducers(List.of("java-open-id")).all().get();
            require(failure(() -> {
                producer.commitTransaction();
                return null;
            }) != null, "a fenced producer committed");
        } catch (KafkaException closing) {
            // The producer that was fenced cannot end its transaction when it is closed either.
        }
        requireEqual(List.of(), readAll(topic, 1, 0));
    }

    // --- what the stories share

    private interface Call {
        Object make() throws Exception;
    }

    private static Class<?> failure(Call call) throws Exception {
        try {
            call.make();
            return null;
        } catch (ExecutionException error) {
            return error.getCause().getClass();
        } catch (KafkaException error) {
            return error.getClass();
        }
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        settings.putAll(more);
        return settings;
    }

    private Admin admin() {
        return Admin.create(settings(Map.of()));
    }

    private KafkaProducer<String, String> transactional(String id) {
        return new KafkaProducer<>(settings(Map.of("transactional.id", id)), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, String protocol, Map<String, Object> more) {
        Map<String, Object> settings = settings(Map.of(
            "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest", "enable.auto.commit", false,
            "isolation.level", "read_committed"));
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", 300);
        }
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private String create(String topic, int partitions) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        return topic;
    }

    private void write(String topic, int partitions, int count) {
        try (var producer = new KafkaProducer<>(settings(Map.of()), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, number % partitions, null, "" + number));
            }
        }
    }

    /** At least `count` records, then what else there is. */
    private List<String> readAll(String topic, int partitions, int count) {
        List<TopicPartition> all = new ArrayList<>();
        for (int index = 0; index < partitions; index++) {
            all.add(new TopicPartition(topic, index));
        }
        List<String> seen = new ArrayList<>();
        try (var reader = consumer("java-reader", "classic", Map.of())) {
            reader.assign(all);
            Map<TopicPartition, Long> ends = reader.endOffsets(all);
            long deadline = System.nanoTime() + WAIT.toNanos();
            while (System.nanoTime() < deadline && all.stream().anyMatch(each -> reader.position(each) < ends.get(each))) {
                for (ConsumerRecord<String, String> each : reader.poll(POLL)) {
                    seen.add(each.value());
                }
            }
        }
        require(seen.size() >= count, "only " + seen);
        return seen;
    }

    private GroupType typeOf(String group) throws Exception {
        try (Admin admin = admin()) {
            for (GroupListing each : admin.listGroups().all().get()) {
                if (each.groupId().equals(group)) {
                    return each.type().orElseThrow();
                }
            }
        }
        throw new AssertionError("there is no group " + group);
    }

    private static void pollUntil(Collection<KafkaConsumer<String, String>> members, BooleanSupplier holds, String what) {
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (!holds.getAsBoolean()) {
            require(System.nanoTime() < deadline, "not within " + WAIT.toSeconds() + " s: " + what);
            members.forEach(member -> member.poll(POLL));
        }
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    private static void requireEqual(Object expected, Object actual) {
        require(Objects.equals(expected, actual), "expected " + expected + ", got " + actual);
    }
}
