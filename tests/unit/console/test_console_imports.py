"""What a console loads before anybody looks at it."""

import subprocess
import sys


def test_a_console_begins_without_what_is_only_in_extras() -> None:
    extras = ("pyspark", "google.protobuf", "fastavro", "avro", "jsonschema_rs", "proto_schema_parser")
    code = f"import sys; import headrace.console.console; print([name for name in {extras!r} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"
