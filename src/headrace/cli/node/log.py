"""`headrace log`: look into the files of a log, without a broker and without changing them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import AsJson
from headrace.cli.failure import Failure
from headrace.cli.output import iso_time, remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.log.recovery.inspect import BatchReport
    from headrace.log.recovery.verification import Report
    from headrace.log.segments.scanning import ScannedBatch

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
    from headrace.log.recovery.inspect import offset_entries, time_entries

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
    from headrace.log.recovery.inspect import inspect_segment

    found = _read(file, lambda path: [_facts(report, records) for report in inspect_segment(path)])
    sound = [facts for facts in found if not isinstance(facts, str)]
    faults = [facts for facts in found if isinstance(facts, str)]
    if as_json:
        show_json({"file": str(file), "batches": sound, "faults": faults})
    else:
        show_table(COLUMNS, [_row(facts) for facts in found], title=file.name)
        if records:
            lines = [(batch["first_offset"], *record.values()) for batch in sound for record in batch["contents"]]
            show_table(("batch", "offset", "timestamp", "key", "value", "headers"), lines)
    if faults:
        raise Failure(f"{file.name}: {'; '.join(faults)}.")


def _row(batch: "dict[str, Any] | str") -> tuple[Any, ...]:
    if isinstance(batch, str):
        return ("broken", *("-" for _ in COLUMNS[1:-1]), "BAD")
    return (*(value for name, value in batch.items() if name != "contents"), "ok")


def _facts(report: "BatchReport", records: bool) -> dict[str, Any] | str:
    """A batch as a row; of bytes that are none, what is wrong with them."""
    if report.batch is None:
        return f"{report.size} bytes from {report.position} on are no batch ({report.note})"
    header = report.batch.header
    producer = None if header.producer_id < 0 else f"{header.producer_id}/{header.producer_epoch} from {header.base_sequence}"
    facts = {
        "position": report.position,
        "first_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size,
        "codec": header.compression,
        "latest_timestamp": iso_time(header.max_timestamp) if header.max_timestamp >= 0 else None,
        "producer": producer,
        "kind": report.note or ("transactional" if header.is_transactional else "data"),
    }
    return facts | ({"contents": _contents(report.batch)} if records else {})


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
    """Read every byte of every segment and index, and report what is wrong.

    Ends with exit code 1 when something is broken; what the next start mends by itself is only told.  A torn tail in the newest
    segment is what a crash leaves behind; the next start cuts it.  While a broker writes, the tail may look torn for a moment.
    """
    from headrace.log.recovery.verification import verify_directory

    _require(directory, directory.is_dir(), "directory")
    reports: list[Report] = _read(directory, lambda path: list(verify_directory(path)))
    partitions = [report for report in reports if report.segments]
    if not partitions:
        raise Failure(f"{directory} holds no segments.")
    if as_json:
        show_json([_verdict(report) for report in reports if report.segments or report.findings])
    else:
        _show_verdicts(partitions)
    _conclude(reports)


def _verdict(report: "Report") -> dict[str, Any]:
    return {
        "partition": report.name,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.size_bytes,
        "faults": [f"{finding.path.name}: {finding.problem}" for finding in report.findings if not finding.harmless],
        "mended_by_the_next_start": [
            f"{finding.path.name}: {finding.problem}" for finding in report.findings if finding.harmless
        ],
    }


def _show_verdicts(partitions: "list[Report]") -> None:
    rows = [
        (report.name, report.segments, report.batches, report.records, report.size_bytes, "BAD" if _is_broken(report) else "ok")
        for report in partitions
        if report.batches or report.findings
    ]
    if rows:
        show_table(("partition", "segments", "batches", "records", "bytes", "verdict"), rows)
    if len(rows) < len(partitions):
        remark(f"Partitions that are empty and sound: {len(partitions) - len(rows)}.")


def _is_broken(report: "Report") -> bool:
    return any(not finding.harmless for finding in report.findings)


def _conclude(reports: "list[Report]") -> None:
    for report in reports:
        for finding in report.findings:
            remark(f"{report.name}: {finding.path.name}: {finding.problem}")
    broken = sum(map(_is_broken, reports))
    if broken:
        raise Failure(f"{broken} of {len(reports)} directories are not as they should be.")
