"""Where declarations and generated files lie."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import nirmap
from nirmap.errors import MappingError


def nirmap_version() -> str:
    """The installed version."""
    try:
        return importlib.metadata.version("nirmap")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed: run from its source tree)"


def is_source_tree() -> bool:
    """Whether nirmap runs from its source tree; an installed wheel has the declarations inside the package."""
    return not (_package() / "mappings").is_dir()


def mappings_folder() -> Path:
    """The declarations of nirmap itself: those in the installed package, else those of the source tree."""
    package = _package()
    return package.parents[1] / "mappings" if is_source_tree() else package / "mappings"


def generated_folder() -> Path:
    """Where the generated files of nirmap itself belong: the folder that holds the registry package.

    Raises:
        MappingError: there is no registry package.
    """
    # Found, not imported: it may be broken, and be generated anew for that reason.
    found = importlib.util.find_spec("nirmap_registry")
    if found is None or not found.submodule_search_locations:
        raise MappingError(
            "package nirmap_registry", "it is not installed", "the folder of generated files", "use --out"
        )
    return Path(next(iter(found.submodule_search_locations))).parent


def _package() -> Path:
    return Path(nirmap.__file__).parent
