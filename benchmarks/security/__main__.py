"""`python -m benchmarks.security [--quick] [--only ...]`: the cost of rules, sign-ins, handshakes and TLS."""

import argparse
import os
import platform
import ssl
import time
from collections.abc import Callable, Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.security.encrypted import AIM, COLUMNS, PARTITIONS, encrypted, handshakes
from benchmarks.security.flood import COLUMNS as FLOOD_COLUMNS
from benchmarks.security.flood import watched
from benchmarks.security.guarded import guarded
from benchmarks.security.sign_ins import plain, scram, scram_by_scramp
from benchmarks.security.transports import transports
from headrace.model.access.acls import AclRule, Operation, PatternType, ResourceType
from headrace.model.access.principals import Subject, group, user
from headrace.model.access.scram import ScramMechanism
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.guard import Guard
from headrace.security.authorization.index import AclIndex
from headrace.security.authorization.permissions import check_of
from headrace.wire.apis import ApiKey

ROUNDS = 5  # the best counts: other programs on the machine only ever add
AIM_NS = 1000
SUBJECT = Subject(user("user9"), [group("group1"), group("group2")], "10.1.2.3")
WRITE_TOPIC = (Operation.WRITE, ResourceType.TOPIC)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.security", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--only", choices=["rules", "tls", "flood"], help="one part of the tables")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=None if os.isatty(1) else 140)
    console.print(f"{platform.machine()}, Python {platform.python_version()}, {ssl.OPENSSL_VERSION}; processor time of one core")
    if arguments.only in (None, "rules"):
        show_rules(console, 20_000 if arguments.quick else 200_000)
    if arguments.only in (None, "tls"):
        show_tls(console, quick=arguments.quick)
    if arguments.only in (None, "flood"):
        title = "Somebody by TLS who asks every 5 ms, while another address begins handshakes"
        show(console, title, FLOOD_COLUMNS, watched(3 if arguments.quick else 20))


def show_tls(console: Console, *, quick: bool) -> None:
    show(
        console,
        f"TLS 1.3 beside plain text, acks=all, {PARTITIONS} partitions, flush os (aim: a ratio of {AIM} in throughput)",
        COLUMNS,
        encrypted(quick),
    )
    show(
        console,
        "Connections that ask one thing, one after the other; full handshakes",
        ["", "a second", "broker, CPU µs", "as many a second on one core", "client, CPU µs"],
        handshakes(200 if quick else 2000),
    )
    show(
        console,
        "TLS without a broker, CPU seconds for a gigabyte",
        ["", "received", "sent"],
        transports((64 if quick else 512) * 1024 * 1024),
    )


def show_rules(console: Console, repetitions: int) -> None:
    show(
        console,
        f"One check, ns (aim: under {AIM_NS} when remembered)",
        ["rules", "remembered", "by the guard", "decided anew", "no rule, anew", "some topic, anew", "a rule added, µs"],
        decisions(repetitions),
    )
    show(
        console,
        "One request, µs of processor time, the client's included (aim: a ratio of 1)",
        ["request", "without an authorizer", "with 10,000 rules", "ratio"],
        guarded(example_rules(10_000), repetitions // 100),
    )
    show(console, "Sign-ins a second, the broker's side alone", ["mechanism", "ours", "scramp"], sign_ins(repetitions // 100))


def decisions(repetitions: int) -> Iterator[tuple[object, ...]]:
    for count in (10, 1000, 10_000):
        rules = Authorizer(AclIndex(example_rules(count)))
        guard, check = Guard(rules), check_of(ApiKey.PRODUCE, *WRITE_TOPIC)
        assert guard.allows(SUBJECT, check, "topic9")
        more = [example_rule(count + 1)]
        few = max(1, repetitions // 100)
        yield (
            f"{count:,}",
            nanoseconds(lambda rules=rules: rules.allows(SUBJECT, *WRITE_TOPIC, "topic9"), repetitions),
            nanoseconds(lambda guard=guard, check=check: guard.allows(SUBJECT, check, "topic9"), repetitions),
            nanoseconds(lambda rules=rules: rules._decide(SUBJECT, *WRITE_TOPIC, "topic9"), few),
            nanoseconds(lambda rules=rules: rules._decide(SUBJECT, *WRITE_TOPIC, "another.topic"), few),
            nanoseconds(lambda rules=rules: rules._decide_some(SUBJECT, *WRITE_TOPIC), few),
            nanoseconds(lambda rules=rules, more=more: rules.changed(added=more), few // 10 + 1) // 1000,
        )


def example_rules(count: int) -> list[AclRule]:
    return [example_rule(number) for number in range(count)]


def example_rule(number: int) -> AclRule:
    """Users with some topics each, every tenth rule for a prefix, some for a network."""
    return AclRule(
        principal=user(f"user{number % 500}") if number % 7 else group(f"group{number % 50}"),
        host="10.0.0.0/8" if number % 5 == 0 else "*",
        operation=Operation.WRITE if number % 2 else Operation.READ,
        resource_type=ResourceType.TOPIC,
        resource_name=f"topic{number}" if number % 10 else f"team{number}.",
        pattern_type=PatternType.LITERAL if number % 10 else PatternType.PREFIXED,
    )


def sign_ins(repetitions: int) -> Iterator[tuple[object, ...]]:
    for mechanism in ScramMechanism:
        ours, theirs = nanoseconds(scram(mechanism), repetitions), nanoseconds(scram_by_scramp(mechanism), repetitions)
        yield mechanism.title, f"{10**9 // ours:,}", f"{10**9 // theirs:,}"
    yield "PLAIN (4,096 iterations)", f"{10**9 // nanoseconds(plain(), max(1, repetitions // 20)):,}", "–"


def nanoseconds(call: Callable[[], object], repetitions: int) -> int:
    """Processor time of one call, less what calling a function that does nothing takes."""
    return max(1, round(best(call, repetitions) - best(lambda: None, repetitions)))


def best(call: Callable[[], object], repetitions: int) -> float:
    def once() -> float:
        begun = time.process_time_ns()
        for _ in range(repetitions):
            call()
        return (time.process_time_ns() - begun) / repetitions

    return min(once() for _ in range(ROUNDS))


def show(console: Console, title: str, columns: list[str], rows: Iterator[tuple[object, ...]]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)


if __name__ == "__main__":
    main()
