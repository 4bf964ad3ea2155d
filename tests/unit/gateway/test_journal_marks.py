"""Who is heeded in the log of gateways."""

from pathlib import Path

from headrace.gateway.fleet.journal import MARK, Journal
from headrace.gateway.webhooks.sealing import Seal
from headrace.records.record import Record


def keyed(directory: Path, text: bytes) -> Seal:
    file = directory / text[:4].decode()
    file.write_bytes(text)
    file.chmod(0o600)
    return Seal(file)


def journal(seal: Seal) -> Journal:
    return Journal(None, lambda: None, seal.mark)  # type: ignore[arg-type]


def entry(key: bytes, value: bytes | None, mark: bytes | None) -> Record:
    return Record(offset=0, timestamp=0, key=key, value=value, headers=() if mark is None else ((MARK, mark),))


def test_with_a_key_only_what_a_gateway_with_it_has_written_counts(tmp_path: Path) -> None:
    ours, theirs = keyed(tmp_path, b"ours" * 10), keyed(tmp_path, b"them" * 10)
    heeds = journal(ours)._is_a_gateways
    key, value = b"gateway/g/0/-", b'{"url": "http://x"}'

    assert heeds(entry(key, value, ours.mark(key, value)))
    assert heeds(entry(key, None, ours.mark(key, None)))
    assert not heeds(entry(key, value, None))
    assert not heeds(entry(key, value, theirs.mark(key, value)))
    assert not heeds(entry(b"gateway/h/0/-", value, ours.mark(key, value)))
    assert not heeds(entry(key, None, ours.mark(key, value)))
    assert not heeds(entry(key, b"", ours.mark(key, None)))


def test_without_a_key_everything_counts() -> None:
    assert journal(Seal(None))._is_a_gateways(entry(b"gateway/g/0/-", b"{}", None))
