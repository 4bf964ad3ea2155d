"""Node's client: a script of `kafkajs` that is given values as JSON, and tells what came of them as JSON."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".cache" / "kafkajs" / "node_modules"
STORIES = Path(__file__).parent / "kafkajs"
WAIT_S = 60

needs_kafkajs = [
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here: apt install nodejs npm"),
    pytest.mark.skipif(
        not (PACKAGES / "kafkajs").is_dir(), reason="kafkajs is not installed: `make test` installs it where npm may"
    ),
]


def tell(story: str, *arguments: str, given: object = None) -> Any:
    done = subprocess.run(
        ["node", str(STORIES / story), *arguments],
        input=json.dumps(given),
        env={**os.environ, "NODE_PATH": str(PACKAGES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
