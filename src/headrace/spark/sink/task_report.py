"""What a task tells the driver about its work."""

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """Rows and bytes that are in the log for good; a batch that had been written before counts as skipped."""

    rows: int
    byte_count: int
    skipped: bool = False
