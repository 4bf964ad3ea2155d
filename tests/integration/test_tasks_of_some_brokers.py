"""Kinds of tasks that a broker has only where something is set: each is killed once, and what its rule says happens."""

import ast
import logging
from collections.abc import Iterator

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.health import disk_health
from headrace.broker.supervision import supervision
from headrace.broker.supervision.supervision import Rule, Service
from headrace.testing import Broker
from tests.integration.test_tasks_that_die import RULES as OF_EVERY_BROKER
from tests.support.certificates import Authority
from tests.support.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.metrics import AT_ANY_PORT
from tests.support.source_tree import SOURCE
from tests.support.waiting import until

RULES = {
    "tiered storage": Rule.RESTART,
    "loop watch": Rule.RESTART,
    "certificates": Rule.RESTART,
    "keys of tokens": Rule.RESTART,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("broker")
    (folder / "store").mkdir()
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(Authority(folder).of_broker()),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{Issuer(folder).file}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "headrace.remote.url": f"file://{folder / 'store'}",
        **AT_ANY_PORT,
    }
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(supervision, "PAUSE_S", 0.01)
        patching.setattr(disk_health, "CHECK_S", 0.05)
        with Broker(data=folder / "data", settings=settings) as running:
            yield running


def service_of(broker: Broker, kind: str) -> Service:
    return broker.run(lambda real: next(each for each in real.supervisor.services() if each.kind == kind))


@pytest.mark.parametrize(("kind", "rule"), RULES.items())
def test_a_task_that_is_killed_is_begun_again_and_everybody_can_see_it(
    broker: Broker, kind: str, rule: Rule, caplog: pytest.LogCaptureFixture
) -> None:
    service = service_of(broker, kind)
    until(lambda: service.is_running)
    broker.run(lambda _: service.kill(ValueError("injected")))

    until(lambda: service.lives == 2 and service.is_running)
    assert service.rule is rule
    assert f"{kind} failed: ValueError: injected" in broker.run(lambda real: real.condition().reasons)
    until(lambda: broker.run(lambda real: any(kind in reason for reason in told(real))))
    assert any(record.levelno == logging.ERROR and kind in record.message for record in caplog.records)


def told(broker: RealBroker) -> tuple[str, ...]:
    """What the others hear of its health."""
    return broker.image.brokers[broker.broker_id].degraded


def test_every_kind_of_task_in_the_source_is_killed_by_a_test() -> None:
    beginning = [path for path in (SOURCE / "headrace/broker").rglob("*.py") if "Rule.RESTART" in path.read_text()]
    named = {kind for path in beginning for kind in kinds_in(ast.parse(path.read_text()))}

    assert named >= RULES.keys(), "the source is not read as it should be"
    assert named <= OF_EVERY_BROKER.keys() | RULES.keys(), "add it to RULES, with what its rule is"


def kinds_in(tree: ast.AST) -> Iterator[str]:
    """What is begun by name, to go on or to begin again when it dies."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="start" | "run"),
                args=[ast.Constant(value=str(kind)), _, ast.Attribute(value=ast.Name(id="Rule"))],
            ):
                yield kind


def test_the_broker_here_has_the_tasks_that_others_have_not(broker: Broker) -> None:
    kinds = broker.run(lambda real: {service.kind for service in real.supervisor.services()})

    assert kinds - OF_EVERY_BROKER.keys() == RULES.keys()


def test_a_kind_that_is_begun_by_name_is_seen() -> None:
    assert list(kinds_in(ast.parse('scope.start("new kind", self._run, Rule.RESTART, subject="x")'))) == ["new kind"]
