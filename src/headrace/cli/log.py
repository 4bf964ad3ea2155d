"""`headrace log`: look into the files of a log, without a broker and without changing them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import AsJson
from headrace.cli.failure import Failure
from headrace.cli.output import iso_time, remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.log.scanning import ScannedBatch

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Look into the files of a log, without changing them.")

COLUMNS = ("position", "first offset", "last offset", "records", "bytes", "codec", "latest timestamp", "producer", "kind", "CRC")


@app.command(epilog="Example: [bold]headrace log inspect data/orders-0/00000000000000000000.log[/bold]")
def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A segment (.log), an offset index (.index) or a time index (.timeindex).")
    ],
    records: Annotated[bool, typer.Option("--records", help="Also every record of each batch.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the batches of a segment with their CRC verdicts, or the entries of an index.

    Ends with exit code 1 when something in the file is broken.
    """
    _require(file, file.is_file(), "file")
    match file.suffix:
        case ".index":
            _show_entries(file, ("offset", "position"), as_json)
        case ".timeindex":
            _show_entries(file, ("timestamp", "offset"), as_json)
        case ".log":
            _inspect_segment(file, records, as_json)
        case _:
            raise typer.BadParameter(f"{file.name} is neither a .log, an .index nor a .timeindex file.")


def _require(path: Path, is_there: bool, kind: str) -> None:
    if not is_there:
        raise Failure(f"{path} is not a {kind}.")


def _show_entries(file: Path, columns: tuple[str, str], as_json: bool) -> None:
    from headrace.cli.log_report import offset_entries, time_entries

    entries = _read(file, offset_entries if file.suffix == ".index" else time_entries)
    if as_json:
        show_json([dict(zip(columns, entry, strict=True)) for entry in entries])
        return
    rows = [(iso_time(first), second) for first, second in entries] if columns[0] == "timestamp" else entries
    show_table(columns, rows, title=file.name)


def _read(path: Path, read: Any) -> Any:
    try:
        return read(path)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}.") from None


def _inspect_segment(file: Path, records: bool, as_json: bool) -> None:
    from headrace.cli.log_report import batches

    found = _read(file, lambda path: [_facts(batch, records) if not isinstance(batch, str) else batch for batch in batches(path)])
    sound = [batch for batch in found if not isinstance(batch, str)]
    faults = [batch for batch in found if isinstance(batch, str)]
    if as_json:
        show_json({"file": str(file), "batches": sound, "faults": faults})
    else:
        show_table(COLUMNS, [_row(batch) for batch in found], title=file.name)
        if records:
            lines = [(batch["first_offset"], *record.values()) for batch in sound for record in batch["contents"]]
            show_table(("batch", "offset", "timestamp", "key", "value", "headers"), lines)
    if faults:
        raise Failure(f"{file.name}: {'; '.join(faults)}.")


def _row(batch: "dict[str, Any] | str") -> tuple[Any, ...]:
    if isinstance(batch, str):
        return ("broken", *("-" for _ in COLUMNS[1:-1]), "BAD")
    return (*(value for name, value in batch.items() if name != "contents"), "ok")


def _facts(batch: "ScannedBatch", records: bool) -> dict[str, Any]:
    header = batch.header
    producer = None if header.producer_id < 0 else f"{header.producer_id}/{header.producer_epoch} from {header.base_sequence}"
    kinds = [name for name, holds in (("control", header.is_control), ("transactional", header.is_transactional)) if holds]
    facts = {
        "position": batch.position,
        "first_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size,
        "codec": header.compression,
        "latest_timestamp": iso_time(header.max_timestamp) if header.max_timestamp >= 0 else None,
        "producer": producer,
        "kind": " ".join(kinds) or "data",
    }
    return facts | ({"contents": _contents(batch)} if records else {})


def _contents(batch: "ScannedBatch") -> list[dict[str, Any]]:
    from headrace.records.record import read_records

    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _shown(record.key),
            "value": _shown(record.value),
            "headers": [f"{name}={_shown(value)}" for name, value in record.headers],
        }
        for record in read_records(batch.data)
    ]


def _shown(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


@app.command(epilog="Example: [bold]headrace log verify data[/bold]")
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A data directory, or the directory of one partition.")],
    as_json: AsJson = False,
) -> None:
    """Read every byte of every segment and index, and say what is not as it should be.

    Ends with exit code 1 when something is broken.  A torn tail in the newest segment is what a crash leaves behind; the next
    start cuts it.  While a broker writes, the tail may look torn for a moment.
    """
    from headrace.cli.log_report import partition_directories, verify_partition

    _require(directory, directory.is_dir(), "directory")
    reports = [_read(path, verify_partition) for path in _read(directory, partition_directories)]
    if not reports:
        raise Failure(f"{directory} holds no segments.")
    rows = [
        {
            "partition": report.name,
            "segments": report.segments,
            "batches": report.batches,
            "records": report.records,
            "bytes": report.size_bytes,
            "faults": report.faults,
        }
        for report in reports
    ]
    if as_json:
        show_json(rows)
    else:
        table = [(*list(row.values())[:-1], "BAD" if row["faults"] else "ok") for row in rows]
        show_table(("partition", "segments", "batches", "records", "bytes", "verdict"), table)
    _conclude(rows)


def _conclude(rows: list[dict[str, Any]]) -> None:
    broken = [row for row in rows if row["faults"]]
    for row in broken:
        for fault in row["faults"]:
            remark(f"{row['partition']}: {fault}")
    if broken:
        raise Failure(f"{len(broken)} of {len(rows)} partitions are not as they should be.")
