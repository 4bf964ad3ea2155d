"""Grafana's dashboards: panels as values, and the JSON that Grafana imports or reads from a directory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["short", "Bps", "bytes", "s", "percentunit", "reqps", "ops", "rowsps", "dateTimeFromNow", "none"]
Shape = Literal["timeseries", "stat"]

COLUMNS = 24
SCHEMA_VERSION = 39
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """What is drawn, and how each line of it is called."""

    expression: str
    legend: str = "{{instance}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture.  The description says how to read it."""

    title: str
    unit: Unit
    description: str
    queries: tuple[Query, ...]
    shape: Shape = "timeseries"
    width: int = 8
    # From here on it is shown in red.
    bad_from: float | None = None

    @property
    def height(self) -> int:
        return 4 if self.shape == "stat" else 8


@dataclass(frozen=True, slots=True)
class Variable:
    """What a person may choose above the panels: the values of a label."""

    name: str
    metric: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page of panels, in rows of which each has a title."""

    name: str
    title: str
    variables: tuple[Variable, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]

    @property
    def panels(self) -> list[Panel]:
        return [panel for _, panels in self.rows for panel in panels]

    def to_values(self) -> dict[str, Any]:
        """As Grafana reads it."""
        return {
            "uid": f"headrace-{self.name}",
            "title": self.title,
            "tags": ["headrace"],
            "timezone": "browser",
            "schemaVersion": SCHEMA_VERSION,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "links": [{"type": "dashboards", "title": "Headrace", "tags": ["headrace"], "asDropdown": True, "keepTime": True}],
            "templating": {"list": [_choice_of_source(), *map(_choice, self.variables)]},
            "annotations": {"list": []},
            "panels": list(self._placed()),
        }

    def _placed(self) -> Iterator[dict[str, Any]]:
        number, top = 0, 0
        for title, panels in self.rows:
            number += 1
            yield {
                "id": number,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            }
            top, left, tallest = top + 1, 0, 0
            for panel in panels:
                if left + panel.width > COLUMNS:
                    top, left, tallest = top + tallest, 0, 0
                number += 1
                yield _panel(panel, number, left, top)
                left, tallest = left + panel.width, max(tallest, panel.height)
            top += tallest


def _panel(panel: Panel, number: int, left: int, top: int) -> dict[str, Any]:
    drawn = panel.shape == "timeseries"
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    look = {
        "lineWidth": 1,
        "fillOpacity": 10,
        "showPoints": "never",
        "thresholdsStyle": {"mode": "dashed" if steps[1:] else "off"},
    }
    return {
        "id": number,
        "type": panel.shape,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query.expression, "legendFormat": query.legend}
            for at, query in enumerate(panel.queries)
        ],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "thresholds": {"mode": "absolute", "steps": steps},
                **({"custom": look, "min": 0} if drawn else {}),
            },
            "overrides": [],
        },
        "options": _graph_options() if drawn else _stat_options(),
    }


def _graph_options() -> dict[str, Any]:
    return {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def _stat_options() -> dict[str, Any]:
    return {
        "reduceOptions": {"calcs": ["lastNotNull"], "values": False},
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "auto",
    }


def _choice_of_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}


def _choice(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values({variable.metric}, {variable.name})", "refId": "values"},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }
