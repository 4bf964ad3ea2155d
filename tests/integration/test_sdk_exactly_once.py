"""Exactly once into a database: whatever is killed, each effect is there once."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Admin, Consumer, DeadLetters, DecodeFailed, InvalidArgument, Producer, Record, exactly_once
from headrace.client.deadletter import redrive
from headrace.client.exactly_once.offset_table import Overtaken
from tests.support.torture import only_in_torture
from tests.support.waiting import until

WALLET = Path(__file__).with_name("sdk_wallet.py")
ENTRIES = 10


def send_entries(bootstrap: str, topic: str, count: int = ENTRIES, partitions: int = 2) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions, exist_ok=True)
    with Producer(bootstrap, values="json", linger=0.01) as producer:
        for entry in range(count):
            producer.send(topic, {"entry": entry, "to": "ann", "amount": 2**entry}, partition=entry % partitions)


def prepare(connection: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE accounts (name VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL)")
    cursor.execute("CREATE TABLE journal (entry INTEGER NOT NULL, amount BIGINT NOT NULL)")
    cursor.execute("INSERT INTO accounts VALUES ('ann', 0)")
    connection.commit()


def effects(connection: Any) -> tuple[list[int], int]:
    cursor = connection.cursor()
    cursor.execute("SELECT entry FROM journal ORDER BY entry")
    entries = [row[0] for row in cursor.fetchall()]
    cursor.execute("SELECT balance FROM accounts")
    balance = cursor.fetchone()[0]
    connection.rollback()
    return entries, balance


def run_wallet(where: str, bootstrap: str, topic: str, kill_at: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, WALLET, where, bootstrap, topic],
        env={**os.environ, "KILL_AT": str(kill_at)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def base(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "base")
    prepare(connection)
    yield connection
    connection.close()


def reader(bootstrap: str, topic: str, **options: Any) -> Consumer[bytes, Any]:
    return Consumer(topic, bootstrap=bootstrap, group=topic, values="json", delivery="exactly_once", session_timeout=6, **options)


def book(record: Record[bytes, Any], cursor: Any) -> None:
    cursor.execute("UPDATE accounts SET balance = balance + ?", (record.value["amount"],))
    cursor.execute("INSERT INTO journal VALUES (?, ?)", (record.value["entry"], record.value["amount"]))


@only_in_torture
@pytest.mark.timeout(300)
def test_killed_at_every_step_each_effect_is_there_once(bootstrap: str, topic: str, tmp_path: Path) -> None:
    # First without a death, to know how many steps there are.
    send_entries(bootstrap, f"{topic}-count")
    counting = sqlite3.connect(tmp_path / "count")
    prepare(counting)
    said = run_wallet(str(tmp_path / "count"), bootstrap, f"{topic}-count").stdout
    assert said.startswith(f"handled {ENTRIES} in "), said
    steps = int(said.split()[3])
    assert steps > 30
    counting.close()

    killed: list[Any] = []
    for first in range(1, steps + 1, LANES):
        threads = [
            threading.Thread(target=kill_once, args=(bootstrap, topic, tmp_path, at, killed))
            for at in range(first, min(first + LANES, steps + 1))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    wrong = [each for each in killed if each[2:] != (list(range(ENTRIES)), 2**ENTRIES - 1)]
    assert wrong == []
    assert len(killed) == steps
    # Steps are a little more or fewer from run to run, with how the records fall into batches; a few may end by themselves.
    assert sum(code == -9 for code, *_ in killed) > 0.8 * steps


LANES = 6  # programs killed at the same time: each has a topic and a database of its own


def kill_once(bootstrap: str, topic: str, directory: Path, at: int, results: list[Any]) -> None:
    mine, where = f"{topic}-{at}", directory / f"base-{at}"
    connection = sqlite3.connect(where)
    prepare(connection)
    send_entries(bootstrap, mine)
    dead = run_wallet(str(where), bootstrap, mine, kill_at=at)
    assert dead.returncode in (-9, 0), dead.stderr
    run_wallet(str(where), bootstrap, mine)
    results.append((dead.returncode, at, *effects(connection)))
    connection.close()


# The table is there, a partition has its first offset; the records are claimed, half an effect is written, all of them and not
# committed, and committed; half an effect of the next batch is written.
SOME_STEPS = [6, 20, 38, 42, 55, 56, 62]


@pytest.mark.parametrize("kill_at", SOME_STEPS)
def test_killed_at_some_steps_each_effect_is_there_once(
    bootstrap: str, topic: str, tmp_path: Path, base: sqlite3.Connection, kill_at: int
) -> None:
    send_entries(bootstrap, topic)

    assert run_wallet(str(tmp_path / "base"), bootstrap, topic, kill_at).returncode == -9
    assert run_wallet(str(tmp_path / "base"), bootstrap, topic).returncode == 0

    assert effects(base) == (list(range(ENTRIES)), 2**ENTRIES - 1)


def test_a_handler_that_raises_leaves_no_trace_and_the_record_comes_again(
    bootstrap: str, topic: str, base: sqlite3.Connection
) -> None:
    send_entries(bootstrap, topic, partitions=1)
    attempts: list[int] = []

    def sometimes(record: Record[bytes, Any], cursor: Any) -> None:
        book(record, cursor)
        if record.value["entry"] == 5 and attempts.append(5) is None and len(attempts) < 3:
            raise OSError("not now")

    with reader(bootstrap, topic) as consumer:
        sink = exactly_once(consumer, base)
        with pytest.raises(OSError, match="not now"):
            sink.run(sometimes, timeout=2)
        assert effects(base)[0] == [0, 1, 2, 3, 4]
        sink.run(sometimes, timeout=2)

    assert effects(base) == (list(range(ENTRIES)), 2**ENTRIES - 1)


def test_a_loop_of_ones_own_borrows_the_transaction(bootstrap: str, topic: str, base: sqlite3.Connection) -> None:
    send_entries(bootstrap, topic)
    with reader(bootstrap, topic) as consumer:
        sink = exactly_once(consumer, base)
        failed = False
        while batch := consumer.batch(3, 2):
            try:
                with sink.transaction(batch) as cursor:
                    for record in batch:
                        book(record, cursor)
                    if not failed:
                        failed = True
                        raise RuntimeError("once")
            except RuntimeError:
                continue

    assert failed
    assert effects(base) == (list(range(ENTRIES)), 2**ENTRIES - 1)


def test_a_reader_that_was_overtaken_takes_nothing_twice(
    bootstrap: str, topic: str, tmp_path: Path, base: sqlite3.Connection
) -> None:
    send_entries(bootstrap, topic, partitions=1)
    with reader(bootstrap, topic) as zombie:
        stale = exactly_once(zombie, base)
        batch = zombie.batch(4, 10)
        # While it holds its batch, another instance (here: by another name in Kafka, the same in the table) handles everything.
        other = sqlite3.connect(tmp_path / "base")
        with Consumer[bytes, Any](
            topic, bootstrap=bootstrap, group=f"{topic}-2", values="json", delivery="exactly_once"
        ) as consumer:
            sink = exactly_once(consumer, other)
            sink._table._group = topic
            assert sink.run(book, timeout=2) == ENTRIES
        other.close()

        with pytest.raises(Overtaken, match="has moved on"), stale.transaction(batch) as cursor:
            book(batch[0], cursor)
        # It reads on from where the other got to, which is the end.
        assert stale.run(book, timeout=1) == 0

    assert effects(base) == (list(range(ENTRIES)), 2**ENTRIES - 1)


def test_two_instances_share_the_work_and_do_each_once(
    bootstrap: str, topic: str, tmp_path: Path, base: sqlite3.Connection
) -> None:
    send_entries(bootstrap, topic, count=20, partitions=4)
    programs = [
        subprocess.Popen(
            [sys.executable, WALLET, str(tmp_path / "base"), bootstrap, topic],
            env={**os.environ, "WALLET": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("first", "second")
    ]
    for program in programs:
        _, said = program.communicate(timeout=60)
        assert program.returncode == 0, said

    assert effects(base) == (list(range(20)), 2**20 - 1)


def test_the_table_decides_where_to_read_on_and_not_what_kafka_has_committed(
    bootstrap: str, topic: str, base: sqlite3.Connection
) -> None:
    send_entries(bootstrap, topic, partitions=1)
    with reader(bootstrap, topic) as consumer:
        exactly_once(consumer, base).run(book, timeout=1.5)
    # A database restored from a backup is behind what Kafka believes.
    base.execute("UPDATE headrace_offsets SET next_offset = 4")
    base.execute("DELETE FROM journal WHERE entry >= 4")
    base.commit()

    with reader(bootstrap, topic) as consumer:
        exactly_once(consumer, base).run(book, timeout=1.5)

    assert effects(base)[0] == list(range(ENTRIES))


def test_kafkas_offsets_follow_so_that_lag_can_be_seen(bootstrap: str, topic: str, base: sqlite3.Connection) -> None:
    send_entries(bootstrap, topic)
    with reader(bootstrap, topic) as consumer:
        exactly_once(consumer, base).run(book, timeout=1.5)

    with Admin(bootstrap) as admin:
        assert sum(admin.lag(topic).values()) == 0


def test_a_record_that_cannot_be_handled_is_parked_and_passed_over(bootstrap: str, topic: str, base: sqlite3.Connection) -> None:
    send_entries(bootstrap, topic, partitions=1)
    with Producer(bootstrap) as producer:
        producer.send(topic, "{not json")

    def refuses_five(record: Record[bytes, Any], cursor: Any) -> None:
        book(record, cursor)
        if record.value["entry"] == 5:
            raise ValueError("five")

    with reader(bootstrap, topic) as consumer:
        handled = exactly_once(consumer, base).run(refuses_five, timeout=1.5, dead_letters=DeadLetters(attempts=2, backoff=0.01))

    assert handled == ENTRIES - 1
    assert effects(base)[0] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    letters = list(redrive.parked(bootstrap, f"{topic}.dead-letter"))
    assert [(letter.origin_offset, letter.cause) for letter in letters] == [(5, "attempts"), (ENTRIES, "undecodable")]


def test_a_record_that_does_not_decode_stops_and_is_not_passed_over(bootstrap: str, topic: str, base: sqlite3.Connection) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, "{not json")
    with reader(bootstrap, topic) as consumer:
        sink = exactly_once(consumer, base)
        for _ in range(2):
            with pytest.raises(DecodeFailed):
                sink.run(book, timeout=2)


def test_what_does_not_fit_is_refused_by_name(bootstrap: str, topic: str, tmp_path: Path, base: sqlite3.Connection) -> None:
    by_itself = sqlite3.connect(tmp_path / "other", isolation_level=None)
    with Consumer(topic, bootstrap=bootstrap, group=topic) as wrong, reader(bootstrap, topic) as right:
        with pytest.raises(InvalidArgument, match="delivery='at_least_once'"):
            exactly_once(wrong, base)
        with pytest.raises(InvalidArgument, match="commits by itself"):
            exactly_once(right, by_itself)
        with pytest.raises(InvalidArgument, match=r"has no cursor\(\)"):
            exactly_once(right, object())  # type: ignore[arg-type]
    by_itself.close()


def postgres_program(name: str) -> str:
    """Debian keeps the server's programs out of the PATH, in a directory for each version."""
    kept_aside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(kept_aside[-1]) if kept_aside else None)
    return found or pytest.skip(f"PostgreSQL is not installed: no {name} (Debian: apt install postgresql)")


def serves(psycopg: Any, where: str) -> bool:
    try:
        psycopg.connect(where).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A PostgreSQL of our own, where one is installed."""
    psycopg = pytest.importorskip("psycopg", reason="the Python driver for PostgreSQL (psycopg) is not installed")
    initdb, program = postgres_program("initdb"), postgres_program("postgres")
    # PostgreSQL refuses to run as root: then it runs as nobody, in a directory that is nobody's.
    with tempfile.TemporaryDirectory(prefix="headrace-postgres-") as directory:
        as_user: dict[str, Any] = {"cwd": directory}
        if os.geteuid() == 0:
            shutil.chown(directory, "nobody")
            as_user["user"] = "nobody"
        data, where = f"{directory}/data", f"host={directory} user=headrace dbname=postgres"
        subprocess.run(
            [initdb, "-D", data, "-U", "headrace", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            timeout=60,
            **as_user,
        )
        command = [program, "-D", data, "-k", directory, "-c", "listen_addresses=", "-c", "fsync=off"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user)
        try:
            until(lambda: server.poll() is not None or serves(psycopg, where), "PostgreSQL answers")
            assert server.poll() is None, "PostgreSQL did not start"
            yield where
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@pytest.mark.parametrize("kill_at", [0, *SOME_STEPS])
def test_in_postgresql_too_each_effect_is_there_once(bootstrap: str, topic: str, postgres: str, kill_at: int) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA s{kill_at}")
    where = f"{postgres} options='-c search_path=s{kill_at}'"
    with psycopg.connect(where) as connection:
        prepare(connection)
        send_entries(bootstrap, topic)
        if kill_at:
            assert run_wallet(f"postgresql:{where}", bootstrap, topic, kill_at).returncode == -9
        ended = run_wallet(f"postgresql:{where}", bootstrap, topic)
        assert ended.returncode == 0, ended.stderr

        assert effects(connection) == (list(range(ENTRIES)), 2**ENTRIES - 1)
