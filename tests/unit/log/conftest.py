"""What every test of the log may ask for."""

from typing import Any

import pytest

from headrace.log.interface import PartitionLog
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.topic_settings import LogConfig
from tests.unit.log.storing import ManualClock, OpenLog, open_log, simulated_disk


@pytest.fixture(params=["disk", "memory"])
def make_log(request: pytest.FixtureRequest) -> OpenLog:
    def make(config: LogConfig | None = None, clock: Any = None) -> PartitionLog:
        if request.param == "disk":
            return open_log(simulated_disk(), config, clock=clock)
        return MemoryLog(config or LogConfig(), clock=clock or ManualClock())

    return make
