"""What is worth looking at: one dashboard each for the cluster, topics, groups, queues, pipelines and gateways."""

from headrace.cli.monitoring.grafana import Dashboard, Query, Variable
from headrace.cli.monitoring.panels import CLUSTER, DETAIL_WINDOW, graph, of, phases, quantile, stat, total
from headrace.cli.monitoring.queue_dashboards import GATEWAYS, QUEUES

OVERVIEW = Dashboard(
    "cluster",
    "Headrace / Cluster",
    (CLUSTER, Variable("instance", "headrace_cluster_brokers")),
    (
        (
            "How it is",
            (
                stat("Brokers", f"max by (cluster) ({of('headrace_cluster_brokers')})", "Brokers that are alive."),
                stat(
                    "Degraded",
                    f"max by (cluster) ({of('headrace_cluster_brokers_degraded')})",
                    "Brokers with something to complain about: headrace cluster status says what.",
                    bad_from=1,
                ),
                stat(
                    "Without a leader",
                    f"max by (cluster) ({of('headrace_controller_partitions_leaderless')})",
                    "Partitions that nobody can write or read.",
                    bad_from=1,
                ),
                stat(
                    "Under-replicated",
                    f"sum by (cluster) ({of('headrace_partitions_under_replicated')})",
                    "Partitions of which a replica is not in sync.",
                    bad_from=1,
                ),
                stat(
                    "Under the minimum",
                    f"sum by (cluster) ({of('headrace_partitions_under_minimum')})",
                    "Partitions that refuse acks=all.",
                    bad_from=1,
                ),
                stat(
                    "Unclean elections",
                    f"max by (cluster) ({of('headrace_cluster_unclean_elections_total')})",
                    "In the cluster's whole life. Each may have lost records.",
                    bad_from=1,
                ),
            ),
        ),
        (
            "Traffic",
            (
                graph(
                    "Records in and out",
                    "rowsps",
                    "What producers wrote and consumers were sent.",
                    Query(total("headrace_produced_records_total", "cluster"), "in"),
                    Query(total("headrace_consumed_records_total", "cluster"), "out"),
                ),
                graph(
                    "Bytes in and out",
                    "Bps",
                    "Batches as they are stored, compressed or not.",
                    Query(total("headrace_produced_bytes_total", "cluster"), "in"),
                    Query(total("headrace_consumed_bytes_total", "cluster"), "out"),
                    Query(total("headrace_replicated_in_bytes_total", "cluster"), "between brokers"),
                ),
                graph(
                    "Requests",
                    "reqps",
                    "Answered, by API.",
                    Query(total("headrace_requests_total", "api", 'instance=~"$instance"'), "{{api}}"),
                ),
                phases("Produce"),
                phases("Fetch"),
                graph(
                    "Errors told",
                    "ops",
                    "In replies, by API and error. Some are routine: NOT_LEADER_OR_FOLLOWER after a leader moved.",
                    Query(total("headrace_request_errors_total", "api, error"), "{{api}} {{error}}"),
                ),
            ),
        ),
        (
            "Replication",
            (
                graph(
                    "Replication lag",
                    "s",
                    "Time since a follower last had all of the partition in which it is furthest behind.",
                    Query(f"max by (follower) ({of('headrace_replication_lag_seconds')})", "broker {{follower}}"),
                    bad_from=10,
                ),
                graph(
                    "In-sync sets",
                    "ops",
                    "Replicas that left and came back.",
                    Query(total("headrace_in_sync_shrinks_total", "instance"), "{{instance}} left"),
                    Query(total("headrace_in_sync_expansions_total", "instance"), "{{instance}} came back"),
                ),
                graph(
                    "Leaders",
                    "short",
                    "Partitions that each broker leads.",
                    Query(f"sum by (instance) ({of('headrace_partitions_led')})"),
                ),
            ),
        ),
        (
            "Disk",
            (
                graph(
                    "Flushes (p99)",
                    "s",
                    "How long fdatasync takes. Producers wait for it where headrace.flush=ack.",
                    Query(quantile(0.99, "headrace_flush_seconds", "instance")),
                    bad_from=0.5,
                ),
                graph(
                    "Room left",
                    "bytes",
                    "What clients may still write; the reserve is taken off.",
                    Query(f"min by (instance) ({of('headrace_disk_writable_bytes')})"),
                ),
                graph(
                    "Cold reads",
                    "ops",
                    "Reads that had to wait for the disk: consumers that are far behind.",
                    Query(total("headrace_cold_read_seconds_count", "instance")),
                ),
            ),
        ),
        (
            "Process",
            (
                graph("Processor", "percentunit", "Of one core.", Query(total("process_cpu_seconds_total", "instance"))),
                graph(
                    "Memory",
                    "bytes",
                    "In RAM; the page cache is not in it.",
                    Query(f"max by (instance) ({of('process_resident_memory_bytes')})"),
                ),
                graph(
                    "Event loop (p99)",
                    "s",
                    "How late it calls back. Every request waits that long at that moment.",
                    Query(quantile(0.99, "headrace_loop_delay_seconds", "instance")),
                    bad_from=0.1,
                ),
                graph("Connections", "short", "Open ones.", Query(f"sum by (instance) ({of('headrace_connections')})")),
                graph(
                    "Throttled",
                    "s",
                    "Seconds per second for which clients were told to wait, by quota.",
                    Query(total("headrace_throttled_seconds_total", "quota"), "{{quota}}"),
                ),
                graph(
                    "Store of the metadata (p99)",
                    "s",
                    "How long etcd, or the local file, took to answer.",
                    Query(quantile(0.99, "headrace_metadata_round_trip_seconds", "operation"), "{{operation}}"),
                ),
            ),
        ),
    ),
)

CHOSEN_TOPIC = 'topic=~"$topic"'
TOPICS = Dashboard(
    "topics",
    "Headrace / Topics",
    (CLUSTER, Variable("topic", "headrace_partition_end_offset")),
    (
        (
            "By topic",
            (
                graph(
                    "Records written",
                    "rowsps",
                    "By producers.",
                    Query(
                        total("headrace_partition_produced_records_total", "topic", CHOSEN_TOPIC, window=DETAIL_WINDOW),
                        "{{topic}}",
                    ),
                    width=12,
                ),
                graph(
                    "Records read",
                    "rowsps",
                    "By consumers.",
                    Query(
                        total("headrace_partition_consumed_records_total", "topic", CHOSEN_TOPIC, window=DETAIL_WINDOW),
                        "{{topic}}",
                    ),
                    width=12,
                ),
                graph(
                    "Bytes written",
                    "Bps",
                    "By producers, as stored.",
                    Query(
                        total("headrace_partition_produced_bytes_total", "topic", CHOSEN_TOPIC, window=DETAIL_WINDOW), "{{topic}}"
                    ),
                    width=12,
                ),
                graph(
                    "Size",
                    "bytes",
                    "Of all replicas together.",
                    Query(f"sum by (topic) ({of('headrace_partition_size_bytes', CHOSEN_TOPIC)})", "{{topic}}"),
                    width=12,
                ),
            ),
        ),
        (
            "By partition",
            (
                graph(
                    "Records written",
                    "rowsps",
                    "Uneven lines are uneven keys.",
                    Query(
                        total(
                            "headrace_partition_produced_records_total", "topic, partition", CHOSEN_TOPIC, window=DETAIL_WINDOW
                        ),
                        "{{topic}}-{{partition}}",
                    ),
                ),
                graph(
                    "Replicas missing",
                    "short",
                    "How many replicas are not in sync, as the leader has it.",
                    Query(
                        f"max by (topic, partition) ({of('headrace_partition_replicas', CHOSEN_TOPIC)}"
                        f" - {of('headrace_partition_in_sync_replicas', CHOSEN_TOPIC)})",
                        "{{topic}}-{{partition}}",
                    ),
                    bad_from=1,
                ),
                graph(
                    "Follower furthest behind",
                    "short",
                    "Records that it lacks.",
                    Query(
                        f"max by (topic, partition) ({of('headrace_partition_replication_lag_records', CHOSEN_TOPIC)})",
                        "{{topic}}-{{partition}}",
                    ),
                ),
            ),
        ),
    ),
)

CHOSEN_GROUP = 'group=~"$group"'
GROUPS = Dashboard(
    "groups",
    "Headrace / Groups",
    (CLUSTER, Variable("group", "headrace_group_members_by_group")),
    (
        (
            "Lag",
            (
                graph(
                    "In records",
                    "short",
                    "What a group has not committed of each topic.",
                    Query(f"sum by (group, topic) ({of('headrace_group_lag_records', CHOSEN_GROUP)})", "{{group}} {{topic}}"),
                    width=12,
                    bad_from=100_000,
                ),
                graph(
                    "In seconds",
                    "s",
                    "The age of the first record that it has not committed.",
                    Query(f"max by (group, topic) ({of('headrace_group_lag_seconds', CHOSEN_GROUP)})", "{{group}} {{topic}}"),
                    width=12,
                    bad_from=60,
                ),
                graph(
                    "Commits",
                    "rowsps",
                    "How fast a group moves on.",
                    Query(
                        f"sum by (group, topic) (deriv({of('headrace_group_committed_offset', CHOSEN_GROUP)}[{DETAIL_WINDOW}]))",
                        "{{group}} {{topic}}",
                    ),
                    width=12,
                ),
                graph(
                    "Members",
                    "short",
                    "Of each group.",
                    Query(f"sum by (group) ({of('headrace_group_members_by_group', CHOSEN_GROUP)})", "{{group}}"),
                    width=12,
                ),
            ),
        ),
        (
            "Coordinators and transactions",
            (
                graph(
                    "Groups by state",
                    "short",
                    "Of both protocols.",
                    Query(f"sum by (protocol, state) ({of('headrace_groups')})", "{{protocol}} {{state}}"),
                ),
                graph(
                    "Rebalances (p99)",
                    "s",
                    "How long they take, from the first cause until all have their partitions.",
                    Query(quantile(0.99, "headrace_group_rebalance_seconds", "cluster"), "p99"),
                ),
                graph(
                    "Transactions",
                    "ops",
                    "That ended, by outcome.",
                    Query(total("headrace_transactions_total", "outcome"), "{{outcome}}"),
                ),
                graph(
                    "Oldest open transaction",
                    "s",
                    "Readers of committed records wait for it.",
                    Query(f"max by (cluster) ({of('headrace_transactions_oldest_seconds')})", "{{cluster}}"),
                ),
            ),
        ),
    ),
)

CHOSEN_QUERY = 'query=~"$query"'
PIPELINES = Dashboard(
    "pipelines",
    "Headrace / Pipelines",
    (Variable("cluster", "headrace_query_rows_total"), Variable("query", "headrace_query_rows_total")),
    (
        (
            "Queries",
            (
                graph(
                    "Rows",
                    "rowsps",
                    "Read from the source.",
                    Query(total("headrace_query_rows_total", "query", CHOSEN_QUERY), "{{query}}"),
                ),
                graph(
                    "Bytes",
                    "Bps",
                    "Of keys and values.",
                    Query(total("headrace_query_bytes_total", "query", CHOSEN_QUERY), "{{query}}"),
                ),
                graph(
                    "Lag",
                    "short",
                    "Records between where a query is and where the logs end.",
                    Query(f"max by (query) ({of('headrace_query_lag_records', CHOSEN_QUERY)})", "{{query}}"),
                    bad_from=100_000,
                ),
                graph(
                    "Batch time",
                    "s",
                    "Of the last batch. Longer than the trigger's interval, and the query cannot keep up.",
                    Query(f"max by (query) ({of('headrace_query_batch_seconds', CHOSEN_QUERY)})", "{{query}}"),
                ),
                graph(
                    "Behind the present",
                    "s",
                    "How old the watermark is.",
                    Query(f"time() - max by (query) ({of('headrace_query_watermark_seconds', CHOSEN_QUERY)})", "{{query}}"),
                ),
                graph(
                    "Late rows",
                    "rowsps",
                    "Rows that came after the watermark and were left out.",
                    Query(total("headrace_query_late_rows_total", "query", CHOSEN_QUERY), "{{query}}"),
                ),
            ),
        ),
    ),
)

DASHBOARDS = (OVERVIEW, TOPICS, GROUPS, QUEUES, PIPELINES, GATEWAYS)
