"""The modes that Spark's own Kafka sink takes: a plain `write.save()`, and `outputMode("update")`.

Spark refuses both to every data source that is written in Python, before the source is asked: its builder of Python writers has
neither `SupportsStreamingUpdateAsAppend` nor a way to write in the mode `errorifexists`, which is the default.  A sink on the
Java side would be a jar to add.  So the driver's `save` and `start` are taught, by a call of `take_kafka_modes`, what the two
mean for a topic: rows are appended.  Only writers of `format("headrace")` in one of the two modes behave differently for it.
The batch modes `overwrite` and `ignore` stay refused, as Kafka's sink refuses them.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "headrace"
UPDATE_DELIVERY_ID = "update"
# Said by the stream's writer to Spark, and no option of a batch's.
STREAM_OPTIONS = frozenset({"checkpointlocation", "path"})


def take_kafka_modes() -> None:
    """Teach this process's PySpark; a second call changes nothing."""
    if not hasattr(DataFrameWriter.save, "takes_kafka_modes"):
        DataFrameWriter.save = _saving(DataFrameWriter.save)  # type: ignore[method-assign]
        DataStreamWriter.start = _starting(DataStreamWriter.start)  # type: ignore[method-assign]


def _saving(save: Callable[..., None]) -> Callable[..., None]:
    @wraps(save)
    def saved(
        self: DataFrameWriter,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        if format is not None:
            self.format(format)
        if mode is not None:
            self.mode(mode)
        java: Any = self._jwrite
        if str(java.source()).lower() == FORMAT and java.curmode().name() == "ErrorIfExists":
            self.mode("append")
        save(self, path, partitionBy=partitionBy, **options)

    saved.takes_kafka_modes = True  # type: ignore[attr-defined]
    return saved


def _starting(start: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
    @wraps(start)
    def started(
        self: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StreamingQuery:
        self.options(**options)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if str(_private(self, "source")).lower() == FORMAT and _private(self, "outputMode").toString() == "Update":
            self.foreachBatch(appending(_given(self)))
        return start(self, path, partitionBy=partitionBy, queryName=queryName)

    return started


def appending(options: dict[str, str]) -> Callable[[DataFrame, int], None]:
    """Appends a batch's rows.  With `exactly-once` each batch of the query is recorded under an id, as by the stream's writer."""
    given = {"deliveryid": UPDATE_DELIVERY_ID} | {name: value for name, value in options.items() if name not in STREAM_OPTIONS}

    def append(rows: DataFrame, batch: int) -> None:
        rows.write.format(FORMAT).mode("append").options(**given).save()

    return append


def _given(writer: DataStreamWriter) -> dict[str, str]:
    options = _private(writer, "extraOptions").iterator()
    found = {}
    while options.hasNext():
        pair = options.next()
        found[str(pair._1()).lower()] = str(pair._2())
    return found


def _private(writer: DataStreamWriter, name: str) -> Any:
    """Spark tells nobody what a stream's writer was given."""
    java: Any = writer._jwrite
    field = java.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java)
