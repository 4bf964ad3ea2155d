"""A broker's log lines: words on a terminal, JSON where that is set, into a file that is begun anew when it is full."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.failure import Failure
from headrace.cli.node.log_lines import HumanLines, JsonLines, set_up_logs
from headrace.model.broker_settings import BrokerConfig

logger = logging.getLogger("headrace.test_serve_logs")


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    """Everybody's lines go through the root."""
    handlers, level = list(logging.root.handlers), logging.root.level
    logging.root.handlers = []
    yield
    for handler in logging.root.handlers:
        handler.close()
    logging.root.handlers = handlers
    logging.root.setLevel(level)


def record(message: str, *values: object, error: BaseException | None = None) -> logging.LogRecord:
    trace = (type(error), error, None) if error is not None else None
    return logging.LogRecord("headrace.broker", logging.ERROR, "file", 1, message, values, trace)


def test_a_line_for_people_is_coloured_on_a_terminal_alone() -> None:
    assert "\x1b[31m" in HumanLines(coloured=True).format(record("lost %s", "it"))
    plain = HumanLines(coloured=False).format(record("lost %s", "it"))
    assert plain.endswith(" ERROR headrace.broker: lost it")
    assert "\x1b" not in plain


def test_no_name_of_a_stranger_begins_a_line_or_steers_the_terminal() -> None:
    line = HumanLines(coloured=False).format(record("client %s", "a\n2026-01-01 INFO headrace: all is well\r\x1b[2J\u2028"))

    assert line.endswith(r"client a\n2026-01-01 INFO headrace: all is well\r\x1b[2J\u2028")
    assert len(line.splitlines()) == 1


def test_no_line_is_lost_where_a_full_file_cannot_be_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    path = tmp_path / "broker.log"
    set_up_logs(BrokerConfig({"headrace.log.file": str(path), "headrace.log.file.max.bytes": "1000"}), verbose=False)
    monkeypatch.setattr("os.rename", refuse)

    for number in range(50):
        logger.info("line %d has half a character: \ud800", number)

    assert [f"line {number} has" in line for number, line in enumerate(path.read_text().splitlines())] == [True] * 50


def test_a_line_for_machines_is_one_object() -> None:
    found = record("lost %s", 'it "\n', error=ValueError("why"))
    found.left_out = 7
    line = JsonLines(3).format(found)

    assert "\n" not in line
    facts = json.loads(line)
    assert facts.pop("time").endswith("Z")
    assert facts == {
        "level": "ERROR",
        "logger": "headrace.broker",
        "broker": 3,
        "message": 'lost it "\n',
        "left_out": 7,
        "exception": "ValueError: why",
    }


def test_lines_go_to_standard_error_and_say_how_many_were_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(BrokerConfig({"headrace.log.repeats.max": "2"}), verbose=False)
    for number in range(4):
        logger.error("lost %d", number)
    logger.info("went on")
    logger.debug("in detail")

    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["lost 0", "lost 1", "went on"]


def test_json_is_chosen_by_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(BrokerConfig({"headrace.log.format": "json", "node.id": "4"}), verbose=True)
    logger.debug("in detail")

    (facts,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (facts["message"], facts["broker"], facts["level"]) == ("in detail", 4, "DEBUG")


def test_a_full_file_is_set_aside_and_only_so_many_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broker.log"
    settings = {"headrace.log.file": str(path), "headrace.log.file.max.bytes": "1000", "headrace.log.files": "2"}
    set_up_logs(BrokerConfig(settings), verbose=False)
    for number in range(100):
        logger.info("line %d", number)

    assert sorted(each.name for each in tmp_path.iterdir()) == ["broker.log", "broker.log.1", "broker.log.2"]
    assert all(each.stat().st_size <= 1000 for each in tmp_path.iterdir())
    assert "line 99" in path.read_text()
    assert capsys.readouterr().err == ""


def test_a_file_that_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"headrace.log.file: .* cannot be written: No such file or directory\."):
        set_up_logs(BrokerConfig({"headrace.log.file": str(tmp_path / "nowhere" / "broker.log")}), verbose=False)
