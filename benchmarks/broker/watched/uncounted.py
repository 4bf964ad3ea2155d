"""`python -m benchmarks.broker.watched.uncounted serve ...`: a broker that measures none of its requests, for comparison."""

from headrace.broker.metrics.figures import ApiFigures, ConnectionFigures
from headrace.cli.main import main


def _nothing(*figures: object) -> None:
    pass


def _no_clock(self: ConnectionFigures, monotonic: object) -> None:
    _made(self, lambda: 0.0)


if __name__ == "__main__":
    _made = ConnectionFigures.__init__
    ApiFigures.on_sent = _nothing  # type: ignore[method-assign, assignment]
    ConnectionFigures.__init__ = _no_clock  # type: ignore[method-assign, assignment]
    main()
