"""CRC-32C, by the compiled function of the package `crc32c` alone.

The package as a whole reads its own version when it is imported, and for that the parsers of e-mails, archives and tables: 2 MB
and 20 ms of every process of ours.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c
else:

    def _compiled():
        package = find_spec("crc32c")
        within = package.submodule_search_locations if package else None
        spec = PathFinder.find_spec("_crc32c", within) if within else None
        if spec is None or spec.loader is None:  # a package of another shape
            from crc32c import crc32c as whole

            return whole
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.crc32c

    crc32c = _compiled()
