"""The dashboards of what is handed on: queues, and gateways with their webhooks."""

from headrace.cli.monitoring.grafana import Dashboard, Query, Variable
from headrace.cli.monitoring.panels import CLUSTER, DEAD_LETTERS, graph, of, quantile, total

UNDONE = f"sum by (group, topic) ({of('headrace_share_group_lag_records')})"
# Who works on what is told by the leader, what is left to do by the keeper of the group's state.
READY = f"clamp_min({UNDONE} - (sum by (group, topic) ({of('headrace_share_group_in_flight_records')}) or {UNDONE} * 0), 0)"

QUEUES = Dashboard(
    "queues",
    "Headrace / Queues",
    (CLUSTER,),
    (
        (
            "Delayed records",
            (
                graph(
                    "Waiting",
                    "short",
                    "For their time to come.",
                    Query(f"sum by (cluster) ({of('headrace_delayed_records')})", "{{cluster}}"),
                ),
                graph(
                    "Overdue",
                    "s",
                    "For how long the first of those that wait has been due.",
                    Query(f"max by (instance) ({of('headrace_delayed_overdue_seconds')})"),
                    bad_from=10,
                ),
                graph(
                    "Delivered",
                    "rowsps",
                    "To the topics that they were meant for.",
                    Query(total("headrace_delayed_delivered_total", "cluster"), "{{cluster}}"),
                ),
            ),
        ),
        (
            "Share groups",
            (
                graph(
                    "Ready",
                    "short",
                    "Records that a group has not done, and that nobody has in hand.",
                    Query(READY, "{{group}} {{topic}}"),
                ),
                graph(
                    "In flight",
                    "short",
                    "Records that some consumer has, and has not answered for.",
                    Query(f"sum by (group, topic) ({of('headrace_share_group_in_flight_records')})", "{{group}} {{topic}}"),
                ),
                graph(
                    "Oldest",
                    "s",
                    "The age of the first record that a group has not done.",
                    Query(f"max by (group, topic) ({of('headrace_share_group_oldest_seconds')})", "{{group}} {{topic}}"),
                    bad_from=300,
                ),
                graph(
                    "Deliveries",
                    "rowsps",
                    "How they ended: accepted, released to be delivered again, given up.",
                    Query(total("headrace_share_outcomes_total", "outcome"), "{{outcome}}"),
                    width=12,
                ),
                graph(
                    "Dead",
                    "short",
                    "Records that were given up since the brokers started.",
                    Query(f"sum by (group, topic) ({of('headrace_share_group_dead_records_total')})", "{{group}} {{topic}}"),
                    width=12,
                    bad_from=1,
                ),
            ),
        ),
        (
            "Dead letters",
            (
                graph(
                    "Set aside",
                    "rowsps",
                    "Records that a handler could not deal with.",
                    Query(total("headrace_partition_produced_records_total", "topic", DEAD_LETTERS, window="15m"), "{{topic}}"),
                    width=12,
                    bad_from=0.001,
                ),
                graph(
                    "Kept",
                    "short",
                    "Dead letters there are: headrace dead-letter list shows them, redrive sends them back.",
                    Query(
                        f"sum by (topic) (max by (topic, partition) ({of('headrace_partition_end_offset', DEAD_LETTERS)}"
                        f" - {of('headrace_partition_start_offset', DEAD_LETTERS)}))",
                        "{{topic}}",
                    ),
                    width=12,
                ),
            ),
        ),
    ),
)

OF_GATEWAYS = Variable("cluster", "headrace_gateway_connections")
GATEWAYS = Dashboard(
    "gateways",
    "Headrace / Gateways",
    (OF_GATEWAYS,),
    (
        (
            "Requests",
            (
                graph(
                    "Requests",
                    "reqps",
                    "By status.",
                    Query(total("headrace_gateway_requests_total", "status"), "{{status}}"),
                ),
                graph(
                    "Time to answer (p99)",
                    "s",
                    "Streams are not among them.",
                    Query(quantile(0.99, "headrace_gateway_request_seconds", "route"), "{{route}}"),
                ),
                graph(
                    "Under way",
                    "short",
                    "Open streams among them.",
                    Query(f"sum by (route) ({of('headrace_gateway_requests_in_flight')})", "{{route}}"),
                ),
                graph(
                    "Connections and callers",
                    "short",
                    "Callers are principals, with clients of their own at the brokers.",
                    Query(f"sum by (instance) ({of('headrace_gateway_connections')})", "{{instance}} connections"),
                    Query(f"sum by (instance) ({of('headrace_gateway_callers')})", "{{instance}} callers"),
                    Query(f"sum by (instance) ({of('headrace_gateway_members')})", "{{instance}} members of groups"),
                ),
                graph(
                    "Schema registry",
                    "short",
                    "What it holds, as far as a gateway was asked for it.",
                    Query(f"max by (cluster) ({of('headrace_registry_subjects')})", "subjects"),
                    Query(f"max by (cluster) ({of('headrace_registry_versions')})", "versions"),
                    Query(f"max by (cluster) ({of('headrace_registry_schemas')})", "schemas"),
                ),
            ),
        ),
        (
            "Webhooks",
            (
                graph(
                    "Attempts",
                    "ops",
                    "delivered: 2xx. refused: 4xx. failed: any other answer. unanswered: none in time.",
                    Query(total("headrace_webhook_attempts_total", "outcome"), "{{outcome}}"),
                ),
                graph(
                    "Time of endpoints (p99)",
                    "s",
                    "Until they answer, or are given up.",
                    Query(quantile(0.99, "headrace_webhook_attempt_seconds", "cluster"), "{{cluster}}"),
                ),
                graph(
                    "Records",
                    "rowsps",
                    "Delivered, and set aside after the last attempt.",
                    Query(total("headrace_webhook_delivered_records_total", "cluster"), "delivered"),
                    Query(total("headrace_webhook_dead_records_total", "cluster"), "dead"),
                ),
                graph(
                    "Subscriptions",
                    "short",
                    "Those that rest are tried again after a while.",
                    Query(f"sum by (state) ({of('headrace_webhook_subscriptions')})", "{{state}}"),
                ),
            ),
        ),
    ),
)
