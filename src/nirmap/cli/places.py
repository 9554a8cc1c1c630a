"""Where declarations and generated files lie."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import nirmap
from nirmap.errors import MappingError


def mappings_folder() -> Path:
    """The declarations: those in the installed package, else those of the source tree."""
    package = Path(nirmap.__file__).parent
    installed = package / "mappings"
    return installed if installed.is_dir() else package.parents[1] / "mappings"


def generated_folder() -> Path:
    """Where generated files belong: the folder that holds the registry package."""
    # Found, not imported: it may be broken, and be generated anew for that reason.
    found = importlib.util.find_spec("nirmap_registry")
    if found is None or not found.submodule_search_locations:
        raise MappingError(
            "package nirmap_registry", "it is not installed", "the folder of generated files", "use --out"
        )
    return Path(next(iter(found.submodule_search_locations))).parent
