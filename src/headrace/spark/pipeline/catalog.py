"""The pipelines that come with the package, and how the transform of any pipeline is loaded."""

import difflib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.errors import PipelineError
from headrace.spark.pipeline.failure import CodeLine, explained
from headrace.spark.pipeline.file import PipelineFile

Transform = Callable[[DataFrame, Mapping[str, Any]], DataFrame]

# In an installed package they lie beside this file, in a checkout at its root.
READY_FOLDERS = (Path(__file__).parents[1] / "ready", Path(__file__).parents[4] / "pipelines")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A pipeline's code."""

    transform: Transform
    defaults: Mapping[str, Any]
    module: ModuleType

    @property
    def file(self) -> Path:
        """Where the transform's code is."""
        return Path(self.module.__file__ or self.module.__name__)


def ready_pipelines() -> dict[str, Path]:
    """The TOML files of the pipelines that come with the package, by name."""
    folder = next((one for one in READY_FOLDERS if one.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_pipeline(given: str) -> Path:
    """A pipeline by its file, or by the name of a ready one."""
    path = Path(given)
    if path.is_file():
        return path
    ready = ready_pipelines()
    if given in ready:
        return ready[given]
    close = difflib.get_close_matches(given, ready, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(ready)}"
    raise PipelineError(f"'{given}' is neither a pipeline file nor the name of a ready pipeline; {hint}")


def load_transform(pipeline: PipelineFile) -> Loaded:
    """Import the module that the file names: a .py beside it, or a module by its dotted name."""
    module = _module(pipeline)
    transform = getattr(module, "transform", None)
    if not callable(transform):
        raise PipelineError(f"{pipeline.transform} has no function transform(frame, settings)")
    defaults: Mapping[str, Any] = getattr(module, "DEFAULTS", {})
    for key in pipeline.settings:
        if defaults and key not in defaults:
            close = difflib.get_close_matches(key, defaults, n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'?" if close else f"it takes {', '.join(defaults)}"
            raise PipelineError(f"{pipeline.path}: [settings] has '{key}', which {pipeline.name} does not know; {hint}")
    return Loaded(transform=transform, defaults=defaults, module=module)


def _module(pipeline: PipelineFile) -> ModuleType:
    if not pipeline.transform.endswith(".py"):
        try:
            return importlib.import_module(pipeline.transform)
        except ImportError as error:
            raise PipelineError(f"{pipeline.path}: the module {pipeline.transform} cannot be imported: {error}") from None
    path = (pipeline.path.parent / pipeline.transform).resolve()
    if not path.is_file():
        raise PipelineError(f"{pipeline.path}: there is no {path}")
    # Executors unpickle functions of the module by its name, so it gets one that it can be imported by there too.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, "a .py file always has a loader"  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PipelineError(f"{pipeline.path}: its transform cannot be loaded: {_explained(error, path)}") from None
    return module


def _explained(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    code_lines = [CodeLine(one.filename, one.lineno or 0, one.name) for one in traceback.extract_tb(error.__traceback__)]
    return explained(f"{type(error).__name__}: {error}", path, code_lines)
