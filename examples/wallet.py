"""Money in a database, moved exactly once.

The transfers of the topic and the offsets up to which they are done are in one database transaction.  Kill this at any moment and
start it again: no transfer is lost, none happens twice.  `python wallet.py FILE` keeps the accounts in a file.
"""

import sqlite3
import sys
from typing import Any

from headrace import Consumer, Producer, Record, exactly_once

bank = sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else ":memory:")
bank.execute("CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
bank.executemany("INSERT OR IGNORE INTO accounts VALUES (?, ?)", [("ann", 100), ("bob", 100)])
bank.commit()


def transfer(record: Record[bytes, Any], cursor: sqlite3.Cursor) -> None:
    order = record.value
    cursor.execute("UPDATE accounts SET balance = balance - ? WHERE name = ?", (order["amount"], order["from"]))
    cursor.execute("UPDATE accounts SET balance = balance + ? WHERE name = ?", (order["amount"], order["to"]))


with Producer(values="json") as producer:
    for amount in (1, 2, 3, 4):
        producer.send("transfers", {"from": "ann", "to": "bob", "amount": amount})

with Consumer("transfers", group="wallet", values="json", delivery="exactly_once") as consumer:
    done = exactly_once(consumer, bank).run(transfer, timeout=3)

balances = dict(bank.execute("SELECT name, balance FROM accounts"))
print(f"{done} transfers, balances {balances}, together {sum(balances.values())}")
