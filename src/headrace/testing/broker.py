"""A real broker in this process, for anyone's tests: ready in a few milliseconds, gone without a trace.

    with Broker() as broker:
        producer = Producer(broker.bootstrap)

It is the broker that `headrace serve` runs, on an event loop in a thread of its own and on a free port of the loopback address.
"""

import asyncio
import inspect
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from headrace.broker.app import THREADS
from headrace.broker.app import Broker as RealBroker
from headrace.broker.parts import Host
from headrace.host.certificates import AUTHORITY
from headrace.model.broker_settings import BrokerConfig
from headrace.testing.clock import AdjustableClock
from headrace.testing.faults import Faults
from headrace.testing.security import add_users, checked_users, make_certificates, secure_settings, write_profile

Result = TypeVar("Result")

START_SECONDS_MAX = 30.0
# A test should not wait for what is meant for production: groups form at once, and internal topics are small.
QUICK_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.min.session.timeout.ms": "100",
}


class Broker:
    """A context manager around a broker that serves.

    `faults` lets requests go wrong, and `clock` moves its time forward.

    Args:
        memory: Keep everything in memory; with False in a temporary directory.
        data: A directory to keep it in, which stays.
        port: Where to listen on 127.0.0.1; a free port, unless given.
        settings: Settings of the broker by name, such as `{"num.partitions": 3}`.
        host: Clock, disk and randomness of one's own.
        tls: Speak TLS, with certificates made for it; `client_config()` trusts them.
        users: Names and passwords of those who may sign in, by SCRAM, or with `tls` by PLAIN as well.
    """

    def __init__(
        self,
        *,
        memory: bool = True,
        data: Path | str | None = None,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        host: Host | None = None,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary: str | None = None
        self._users = checked_users(users or {})
        self._certificates = make_certificates() if tls else None
        self._protocol = {(False, False): "PLAINTEXT", (True, False): "SSL", (False, True): "SASL_PLAINTEXT"}.get(
            (tls, bool(users)), "SASL_SSL"
        )
        self._given = {
            "listeners": f"{self._protocol}://127.0.0.1:{port}",
            **QUICK_SETTINGS,
            **secure_settings(self._certificates, with_users=bool(users)),
            **_texts(settings or {}),
        }
        BrokerConfig(self._given)  # names what is wrong here and not at the start
        self._on_disk = data is not None or not memory
        self._data = data
        self.clock = AdjustableClock()
        self.clock.on_advanced = self._on_clock_advanced
        self.faults = Faults()
        self._host = host or Host(clock=self.clock)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.broker: RealBroker | None = None

    @property
    def bootstrap(self) -> str:
        """What to give a client as `bootstrap.servers`."""
        if self.broker is None:
            raise RuntimeError("the broker is not running; use it as a context manager, or call start()")
        return str(self.broker.address)

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """What to give a client of librdkafka, signed in as a user or, where there are any, as the first."""
        config = {"bootstrap.servers": self.bootstrap, "security.protocol": self._protocol}
        if self._certificates is not None:
            config["ssl.ca.location"] = str(self._certificates / AUTHORITY)
        if (name := user or next(iter(self._users), None)) is not None:
            config |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": name, "sasl.password": self._password(name)}
        return config

    def _password(self, user: str) -> str:
        if user not in self._users:
            known = ", ".join(self._users) or "none"
            raise ValueError(f"there is no user {user!r} at this broker; its users are: {known}")
        return self._users[user]

    def profile(self, user: str | None = None) -> Path:
        """A file that says the same to the SDK (`profile=`), Spark and the commands (`--profile`); gone with this process."""
        name = user or next(iter(self._users), None)
        keys = {"bootstrap": self.bootstrap, "security_protocol": self._protocol}
        if self._certificates is not None:
            keys["ca_file"] = str(self._certificates / AUTHORITY)
        if name is not None:
            keys |= {"username": name, "password": self._password(name)}
        return write_profile(keys)

    @property
    def bootstraps(self) -> dict[str, str]:
        """The same for each listener, by its name, of a broker with several."""
        if self.broker is None:
            raise RuntimeError("the broker is not running; use it as a context manager, or call start()")
        return {name: str(address) for name, address in self.broker.addresses.items()}

    @property
    def data(self) -> Path:
        """The data directory, of a broker that has one."""
        if not self._on_disk:
            raise RuntimeError("this broker keeps everything in memory; make it with memory=False or data=...")
        return Path(self._given["log.dirs"])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Return when clients are served."""
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        if not self._on_disk:
            self._given["headrace.memory"] = "true"
        elif "log.dirs" not in self._given:
            if self._data is None:
                self._data = self._temporary = tempfile.mkdtemp(prefix="headrace-")
            self._given["log.dirs"] = str(self._data)
        self._loop = uvloop.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="headrace"))
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="headrace-broker", daemon=True)
        self._thread.start()
        try:
            self.broker = self.call(self._start())
        except BaseException:
            self._end_loop()
            raise
        # A second start listens where clients already look.
        self._given["listeners"] = ",".join(
            f"{listener.name}://{listener.address._replace(port=self.broker.addresses[listener.name].port)}"
            for listener in self.broker.listeners.each
        )

    async def _start(self) -> RealBroker:
        broker = RealBroker(BrokerConfig(self._given), self._host)
        await broker.start()
        await add_users(broker, self._users)
        self.faults.install(broker)
        return broker

    def _on_clock_advanced(self) -> None:
        if self.broker is not None:
            self.run(_look_at_clock)

    def stop(self) -> None:
        """Stop cleanly; a temporary directory goes with it.  Stopping twice does nothing."""
        if self._thread is None:
            return
        try:
            if self.broker is not None:
                self.call(self.broker.stop())
        finally:
            self.broker = None
            self._end_loop()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def abandon(self) -> None:
        """Stop as if the machine had: nothing is finished or written down.  Start it again on what is left."""
        if self._thread is not None:
            if self.broker is not None:
                self.call(self.broker.abandon())
            self.broker = None
            self._end_loop()

    def restart(self) -> None:
        """Stop and start on the same address and the same data."""
        kept, self._temporary = self._temporary, None
        self.stop()
        self._temporary = kept
        self.start()

    def housekeep(self) -> None:
        """Do now what the broker does from time to time: remove what is too old, compact, expire."""
        assert self.broker is not None, "the broker is not running"
        self.call(self.broker.parts.housekeeping.apply_retention())
        self.call(self.broker.parts.housekeeping.cleaner.clean_all())

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the broker's event loop and return its result."""
        assert self._loop is not None, "the broker is not running"
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(START_SECONDS_MAX)

    def run(self, function: Callable[[RealBroker], Result]) -> Result:
        """Run a function of the broker on its event loop: the way to look inside without a race."""

        async def on_loop() -> Result:
            assert self.broker is not None
            return function(self.broker)

        return self.call(on_loop())

    def _end_loop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS_MAX)
        self._thread = self._loop = None
        logging.getLogger(__name__).debug("the broker has stopped")


def _look_at_clock(broker: RealBroker) -> None:
    broker.parts.delays.look_at_clock()
    broker.parts.schedules.look_at_clock()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Until it is stopped.  The end is run here too: where the broker is stopped, a loop of the test's own may be running."""
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_default_executor())
    for task in asyncio.all_tasks(loop):
        coroutine = task.get_coro()
        # What came in at the very last has not begun, and nobody awaits it any more.
        if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            coroutine.close()
    loop.close()


def _texts(settings: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()}
