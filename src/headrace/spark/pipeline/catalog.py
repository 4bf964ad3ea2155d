"""The pipelines that come with the package, and how the transform of any pipeline is loaded."""

import ast
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


def check_transform(pipeline: PipelineFile) -> Path:
    """Where the transform's code is; an error for what is wrong with it and can be seen without running it.

    Running it has to wait for Spark: `@udf("double")` at a module's top asks for a session.
    """
    file = _code_file(pipeline)
    if file.suffix != ".py":
        return file  # compiled, or built in: seen when it is loaded
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise _cannot_be_loaded(pipeline, error, file) from None
    for statement in tree.body:
        _require_importable(pipeline, statement, file)
    if "transform" not in _bound_names(tree):
        raise _no_transform(pipeline)
    _check_settings(pipeline, _literal_defaults(tree))
    return file


def load_transform(pipeline: PipelineFile) -> Loaded:
    """Import the module that the file names: a .py beside it, or a module by its dotted name."""
    module = _module(pipeline)
    transform = getattr(module, "transform", None)
    if not callable(transform):
        raise _no_transform(pipeline)
    defaults: Mapping[str, Any] = getattr(module, "DEFAULTS", {})
    _check_settings(pipeline, defaults)
    return Loaded(transform=transform, defaults=defaults, module=module)


def _check_settings(pipeline: PipelineFile, defaults: Mapping[str, Any]) -> None:
    for key in pipeline.settings:
        if defaults and key not in defaults:
            close = difflib.get_close_matches(key, defaults, n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'?" if close else f"it takes {', '.join(defaults)}"
            raise PipelineError(f"{pipeline.path}: [settings] has '{key}', which {pipeline.name} does not know; {hint}")


def _code_file(pipeline: PipelineFile) -> Path:
    if not pipeline.transform.endswith(".py"):
        try:
            found = importlib.util.find_spec(pipeline.transform)
        except (ImportError, ValueError) as error:
            raise _cannot_be_imported(pipeline, error) from None
        if found is None:
            raise _cannot_be_imported(pipeline, f"No module named {pipeline.transform!r}")
        return Path(found.origin or pipeline.transform)
    path = (pipeline.path.parent / pipeline.transform).resolve()
    if not path.is_file():
        raise PipelineError(f"{pipeline.path}: there is no {path}")
    # Executors unpickle functions of the module by its name, so it gets one that it can be imported by there too.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    return path


def _module(pipeline: PipelineFile) -> ModuleType:
    path = _code_file(pipeline)
    try:
        if not pipeline.transform.endswith(".py"):
            return importlib.import_module(pipeline.transform)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None, "a .py file always has a loader"  # noqa: PT018
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except Exception as error:
        raise _cannot_be_loaded(pipeline, error, path) from None
    return module


def _require_importable(pipeline: PipelineFile, statement: ast.stmt, file: Path) -> None:
    """What a module imports at its top, and not in a `try`, has to be there."""
    match statement:
        case ast.Import(names=names):
            roots = [alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(module=str(name), level=0):
            roots = [name.partition(".")[0]]
        case _:
            return
    for root in roots:
        if root not in sys.modules and importlib.util.find_spec(root) is None:
            where = CodeLine(str(file), statement.lineno, "<module>")
            raise PipelineError(f"{_not_loaded(pipeline)}: ModuleNotFoundError: No module named {root!r} ({where})")


def _bound_names(tree: ast.Module) -> set[str]:
    """Every name that is bound anywhere in a module; a star binds what nobody knows, so also what is looked for."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.alias(name="*"):
                found.add("transform")
            case ast.alias(name=name, asname=other_name):
                found.add(other_name or name)
    return found


def _literal_defaults(tree: ast.Module) -> Mapping[str, Any]:
    """DEFAULTS, where it is written out; those that are computed are known once the module runs."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="DEFAULTS")], value=ast.Dict(keys=keys)):
                if all(isinstance(key, ast.Constant) for key in keys):
                    return {str(key.value): None for key in keys if isinstance(key, ast.Constant)}
    return {}


def _no_transform(pipeline: PipelineFile) -> PipelineError:
    return PipelineError(f"{pipeline.transform} has no function transform(frame, settings)")


def _cannot_be_imported(pipeline: PipelineFile, why: object) -> PipelineError:
    return PipelineError(f"{pipeline.path}: the module {pipeline.transform} cannot be imported: {why}")


def _cannot_be_loaded(pipeline: PipelineFile, error: Exception, path: Path) -> PipelineError:
    return PipelineError(f"{_not_loaded(pipeline)}: {_explained(error, path)}")


def _not_loaded(pipeline: PipelineFile) -> str:
    return f"{pipeline.path}: its transform cannot be loaded"


def _explained(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    code_lines = [CodeLine(one.filename, one.lineno or 0, one.name) for one in traceback.extract_tb(error.__traceback__)]
    return explained(f"{type(error).__name__}: {error}", path, code_lines)
