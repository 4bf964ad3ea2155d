"""The pictures of an audit's report.  Each function draws one file and gives its name."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.model.identity import TopicPartition

MINUTE_MS = 60_000
TOPICS_MAX = 8  # more layers than that cannot be told apart; the rest are one layer
PARTITIONS_MAX = 40
BINS_MAX = 600  # minutes are drawn together beyond that
KIND_COLOURS = {"gap": "tab:red", "duplicate": "tab:orange", "order": "tab:purple"}


def over_time(minutes: Mapping[str, Mapping[int, int]], path: Path) -> str:
    """Records per minute of their timestamps, one topic on the other.  Minutes without records are zero, not skipped."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(9, 3.2))
    found = [moment for by_minute in minutes.values() for moment in by_minute]
    if found:
        begin, end = min(found), max(found) + MINUTE_MS
        width = -(-(end - begin) // (MINUTE_MS * BINS_MAX)) * MINUTE_MS
        edges = list(range(begin, end + width, width))
        layers = _layers(minutes)
        counts = [_binned(layer, begin, width, len(edges) - 1) for layer in layers.values()]
        base = [0.0] * (len(edges) - 1)
        moments = [datetime.fromtimestamp(edge / 1000, UTC) for edge in edges]
        for name, layer in zip(layers, counts, strict=True):
            top = [below + more * MINUTE_MS / width for below, more in zip(base, layer, strict=True)]
            axes.stairs(top, moments, baseline=base, fill=True, label=name)
            base = top
        axes.set_ylim(bottom=0)
        axes.legend(fontsize="small", loc="lower right")
    axes.set_ylabel("records per minute")
    axes.set_xlabel("timestamp (UTC)")
    figure.autofmt_xdate()
    return _save(pyplot, figure, path)


def by_partition(records: Mapping[TopicPartition, int], findings: Mapping[TopicPartition, Mapping[str, int]], path: Path) -> str:
    """How many records a partition has beside what was found there; of very many partitions those with most findings."""
    pyplot = _pyplot()
    shown = sorted(records, key=lambda one: (-sum(findings.get(one, {}).values()), one))[:PARTITIONS_MAX]
    shown = sorted(shown, reverse=True)  # the first one is drawn on top
    names = [f"{topic}-{partition}" for topic, partition in shown]
    figure, (left, right) = pyplot.subplots(1, 2, sharey=True, figsize=(9, 1.2 + 0.28 * len(shown)))
    left.barh(names, [records[one] for one in shown], color="tab:blue")
    left.set_xlabel("records")
    base = [0] * len(shown)
    for kind, colour in KIND_COLOURS.items():
        counts = [findings.get(one, {}).get(kind, 0) for one in shown]
        if any(counts):
            right.barh(names, counts, left=base, color=colour, label=kind)
            base = [below + count for below, count in zip(base, counts, strict=True)]
    if any(base):
        right.legend(fontsize="small")
    else:
        right.text(0.5, 0.5, "none", transform=right.transAxes, ha="center", va="center", color="tab:gray")
        right.set_xticks([])
    right.set_xlabel("findings")
    right.xaxis.get_major_locator().set_params(integer=True) if any(base) else None
    return _save(pyplot, figure, path)


def _layers(minutes: Mapping[str, Mapping[int, int]]) -> dict[str, Mapping[int, int]]:
    largest = sorted(minutes, key=lambda topic: -sum(minutes[topic].values()))
    layers: dict[str, Mapping[int, int]] = {topic: minutes[topic] for topic in largest[:TOPICS_MAX]}
    rest: dict[int, int] = {}
    for topic in largest[TOPICS_MAX:]:
        for moment, count in minutes[topic].items():
            rest[moment] = rest.get(moment, 0) + count
    return layers | ({f"{len(largest) - TOPICS_MAX} more topics": rest} if rest else {})


def _binned(by_minute: Mapping[int, int], begin: int, width: int, bins: int) -> list[int]:
    counts = [0] * bins
    for moment, count in by_minute.items():
        counts[(moment - begin) // width] += count
    return counts


def _pyplot() -> Any:
    """Imported when a report is written: it takes a second."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, path: Path) -> str:
    figure.savefig(path, bbox_inches="tight", dpi=120)
    pyplot.close(figure)
    return path.name
