"""What panels are made of: the series that were chosen, how fast they grow, and how they are drawn.

Rates of what is on the page of details have a window of five minutes, as that page is scraped once a minute.
"""

from headrace.cli.monitoring.grafana import Panel, Query, Unit, Variable

CLUSTER = Variable("cluster", "headrace_cluster_brokers")
DETAIL_WINDOW = "5m"
WINDOW = "$__rate_interval"
DEAD_LETTERS = 'topic=~".+\\\\.dead-letter"'


def of(metric: str, *chosen: str) -> str:
    """The series of the cluster that was chosen, and of what else was."""
    labels = ",".join(('cluster=~"$cluster"', *chosen))
    return f"{metric}{{{labels}}}"


def total(metric: str, by: str, *chosen: str, window: str = WINDOW) -> str:
    """How fast it grows."""
    return f"sum by ({by}) (rate({of(metric, *chosen)}[{window}]))"


def quantile(share: float, metric: str, by: str, *chosen: str) -> str:
    return f"histogram_quantile({share}, {total(f'{metric}_bucket', f'{by}, le', *chosen)})"


def stat(title: str, expression: str, description: str, *, unit: Unit = "short", bad_from: float | None = None) -> Panel:
    return Panel(title, unit, description, (Query(expression, "{{cluster}}"),), shape="stat", width=4, bad_from=bad_from)


def graph(title: str, unit: Unit, description: str, *queries: Query, width: int = 8, bad_from: float | None = None) -> Panel:
    return Panel(title, unit, description, queries, width=width, bad_from=bad_from)


def phases(api: str) -> Panel:
    spent = "headrace_request_phase_seconds"
    return graph(
        f"{api}: where its time goes (p99)",
        "s",
        "queue: received, not started. work: on the event loop. wait: for a flush, replicas or new records. "
        "send: behind earlier replies.",
        Query(quantile(0.99, spent, "phase", f'api="{api}"'), "{{phase}}"),
    )
