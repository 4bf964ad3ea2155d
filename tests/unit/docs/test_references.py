"""The references in docs/ say what the code does: every setting, every API, every command."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", ["settings.md", "wire.md", "metrics.md", "permissions.md", "runbook.md", "commands.md", "architecture.svg"]
)
def test_a_generated_page_is_what_the_tables_in_the_code_give(generator: ModuleType, name: str) -> None:
    assert (DOCS / name).read_text() == generator.PAGES[name](), "run `make references`"


def test_every_setting_is_listed() -> None:
    from headrace.model.broker_settings import BROKER_SETTINGS
    from headrace.model.topic_settings import TOPIC_SETTINGS

    page = (DOCS / "settings.md").read_text()

    listed = [setting for setting in (*BROKER_SETTINGS, *TOPIC_SETTINGS) if not setting.internal]
    missing = [setting.name for setting in listed if f"| `{setting.name}` |" not in page]

    assert not missing


def test_every_api_the_broker_answers_is_listed_with_its_versions() -> None:
    from headrace.broker.routes import APIS

    rows = re.findall(r"^\| (\d+) \| \w+(?: †)? \| (\d+)–(\d+) \|", (DOCS / "wire.md").read_text(), re.MULTILINE)

    listed = {int(key): (int(first), int(last)) for key, first, last in rows}
    assert listed == {key: (route.versions[0], route.versions[-1]) for key, route in APIS.items()}


def test_every_command_is_described_in_the_manual() -> None:
    from headrace.cli.main import COMMANDS

    page = (DOCS / "commands.md").read_text()

    missing = [name for name in COMMANDS if f"## headrace {name}" not in page]

    assert not missing


def test_no_two_settings_have_the_same_environment_variable() -> None:
    from headrace.cli.node.settings import NOT_SETTINGS, variable_of
    from headrace.model.broker_settings import BROKER_SETTINGS

    variables = [variable_of(setting.name) for setting in BROKER_SETTINGS]

    assert len(set(variables)) == len(variables)
    assert not NOT_SETTINGS & set(variables)
