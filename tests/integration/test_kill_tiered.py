"""kill -9 while segments go up, manifests are written and files leave the disk: every acknowledged record is read afterwards."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from headrace.tier.manifest import decode_manifest
from tests.integration.test_tiered_storage import TIERED, create, fill, read_all, settings_for
from tests.support.process import BrokerProcess
from tests.support.raw import RawClient
from tests.support.waiting import until

pytestmark = pytest.mark.slow

ROUNDS, RECORDS = 2, 30


def test_no_acknowledged_record_is_lost_by_kills_at_any_step(tmp_path: Path) -> None:
    store, chance = tmp_path / "store", random.Random(7)
    arguments = [text for name, value in settings_for(store).items() for text in ("--set", f"{name}={value}")]
    with BrokerProcess(tmp_path / "data", arguments=tuple(arguments)) as broker:
        for round_ in range(ROUNDS):
            with RawClient(broker.bootstrap) as client:
                if round_ == 0:
                    create(client, "t", local_retention_ms="1", **TIERED)
                fill(client, "t", RECORDS)
            wanted = len(list(store.rglob("*.log"))) + chance.randrange(1, 12)
            until(lambda wanted=wanted: len(list(store.rglob("*.log"))) >= wanted, "uploads are under way")
            broker.kill()
            broker.start()

        with RawClient(broker.bootstrap) as client:
            total = ROUNDS * RECORDS
            assert read_all(client, "t", end=total) == list(range(total))
    (manifest,) = store.rglob("manifest.json")
    for name in decode_manifest(manifest.read_bytes()).objects:
        assert (store / name).exists(), "what a manifest names is there"
