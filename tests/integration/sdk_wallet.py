"""A program that moves money exactly once, and can be killed at any step of its database work.

Arguments: where the database is, the bootstrap address, the topic.  KILL_AT=n ends the process with SIGKILL just before its n-th
step; a step is each call on the connection or a cursor and each commit to the broker, so counting n up visits every one of them.
"""

import os
import signal
import sqlite3
import sys
from typing import Any

from headrace import Consumer, Record, exactly_once

kill_at = int(os.environ.get("KILL_AT", "0"))
steps = 0


def step(name: str) -> None:
    global steps
    steps += 1
    if steps == kill_at:
        print(f"killed before {name}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


class Steps:
    """Stands before a connection or a cursor, and counts the calls that reach it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **options: Any) -> Any:
            step(name)
            result = attribute(*arguments, **options)
            step(f"the line after {name}")
            return Steps(result) if name == "cursor" else result

        return call


def connect(where: str) -> tuple[Any, str]:
    if where.startswith("postgresql:"):
        import psycopg

        return psycopg.connect(where.removeprefix("postgresql:")), "format"
    return sqlite3.connect(where), "qmark"


def main() -> None:
    where, bootstrap, topic = sys.argv[1:]
    connection, paramstyle = connect(where)
    mark = "%s" if paramstyle == "format" else "?"

    def move(record: Record[bytes, Any], cursor: Any) -> None:
        amount = record.value["amount"]
        cursor.execute(f"UPDATE accounts SET balance = balance + {mark} WHERE name = {mark}", (amount, record.value["to"]))
        cursor.execute(f"INSERT INTO journal (entry, amount) VALUES ({mark}, {mark})", (record.value["entry"], amount))

    # A member that keeps its name takes the place of its dead self at once, without waiting for that one's session to end.
    name = os.environ.get("WALLET", "the only one")
    with Consumer[bytes, Any](
        topic,
        bootstrap=bootstrap,
        group=topic,
        instance_id=name,
        values="json",
        delivery="exactly_once",
        session_timeout=6,
        commit_interval=0.05,
    ) as consumer:
        wallet = exactly_once(consumer, Steps(connection), paramstyle=paramstyle)
        print("handled", wallet.run(move, batch=4, timeout=1.5), "in", steps, "steps", flush=True)


if __name__ == "__main__":
    main()
