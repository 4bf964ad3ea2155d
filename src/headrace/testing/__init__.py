"""For your tests: a real broker in this process."""

from headrace.testing.broker import Broker

__all__ = ["Broker"]
