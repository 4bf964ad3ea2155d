"""`make torture`: gateways killed and stopped, their broker killed, their endpoint away, by chance and under load.

Every record is delivered at least once, and in order of its key.  HEADRACE_TORTURE_ROUNDS says how often; HEADRACE_TORTURE_SEED
plays the same sequence again.
"""

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Producer
from tests.support.endpoint import Endpoint
from tests.support.gateway import GatewayProcess
from tests.support.process import BrokerProcess
from tests.support.waiting import until

ROUNDS = int(os.environ.get("HEADRACE_TORTURE_ROUNDS", "0"))
SEED = int(os.environ.get("HEADRACE_TORTURE_SEED", str(random.randrange(1 << 30))))
LOOPBACK = ("--webhook-network", "127.0.0.0/8", "--webhook-http")
KEYS = 8
AWAY_S = (0.2, 3.0, 9.0)  # less than a lease, nearly one, and more

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(
        ROUNDS == 0, reason="`make torture` runs this; tests/integration/test_gateway_takeover.py is the short form"
    ),
]


class Stage:
    """A broker, two gateways and an endpoint."""

    def __init__(self, folder: Path, broker: BrokerProcess, endpoint: Endpoint, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._pause = threading.Event()
        self.broker = broker
        self.endpoint = endpoint
        self.gateways = [self._gateway(0), self._gateway(1)]

    def _gateway(self, number: int) -> GatewayProcess:
        return GatewayProcess(self.broker.bootstrap, self._folder / f"gateway-{number}", *LOOPBACK).__enter__()

    def _rest(self) -> None:
        self._pause.wait(self._chance.choice(AWAY_S))

    def kill_gateway(self) -> None:
        number = self._chance.randrange(2)
        self.gateways[number].kill()
        self._rest()
        self.gateways[number] = self._gateway(number)

    def stop_gateway(self) -> None:
        pid = self._chance.choice(self.gateways).pid
        os.kill(pid, signal.SIGSTOP)
        self._rest()
        os.kill(pid, signal.SIGCONT)

    def kill_broker(self) -> None:
        self.broker.kill()
        self._rest()
        self.broker.start()

    def lose_endpoint(self) -> None:
        """It takes nothing, and says so in one of several ways."""
        before, status = self.endpoint.answer, self._chance.choice((500, 503, 429))
        self.endpoint.answer = lambda posted: (status, {})
        self._rest()
        self.endpoint.answer = before

    def faults(self) -> list[Callable[[], None]]:
        return [self.kill_gateway, self.stop_gateway, self.kill_broker, self.lose_endpoint]

    def close(self) -> None:
        for each in self.gateways:
            each.kill()


@pytest.mark.timeout(180 + ROUNDS * 60)
def test_every_record_is_delivered_in_order_of_its_key_whatever_happens(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"HEADRACE_TORTURE_SEED={SEED}")
    sent: list[int] = []
    accepted: list[int] = []
    ending = threading.Event()

    def load(bootstrap: str) -> None:
        with Producer(bootstrap, delivery_timeout=120) as producer:
            while not ending.wait(0.02):
                number = len(sent)
                producer.send("orders", b"%d" % number, key=b"k%d" % (number % KEYS)).result()
                sent.append(number)

    with BrokerProcess(tmp_path / "broker") as broker, Endpoint() as endpoint:
        endpoint.answer = lambda posted: (accepted.append(posted.json["value"]), (200, {}))[1]
        stage = Stage(tmp_path, broker, endpoint, chance)
        loading = threading.Thread(target=load, args=(broker.bootstrap,), daemon=True)
        try:
            one = stage.gateways[0]
            until(lambda: one.client.get("/live").json()["coordinated"], "it has its lease", 60)
            one.client.post("/topics", json={"name": "orders", "partitions": 2})
            wanted = {"topic": "orders", "group": "g", "callback_url": endpoint.url, "begin": "earliest", "attempts": 100}
            made = one.client.post("/subscriptions", json=wanted)
            assert made.status_code == 201, made.text
            loading.start()
            for number in range(ROUNDS):
                fault = chance.choice(stage.faults())
                print(f"{number}: {fault.__name__}, {len(sent)} sent, {len(accepted)} accepted", flush=True)
                fault()
            ending.set()
            loading.join(150)
            until(lambda: set(accepted) >= set(sent), lambda: sorted(set(sent) - set(accepted))[:10], 300)
        finally:
            ending.set()
            stage.close()

    for key in range(KEYS):
        first_seen = list(dict.fromkeys(value for value in accepted if value % KEYS == key))
        assert first_seen == sorted(first_seen)
