"""Neurons of other packages: found through entry points, and added to the catalogue.

A package names itself in the entry point group ``nirmap.neurons``. What ``nirmap generate`` wrote into it has the node
classes (``nodes``), the modules (``neurons``), the primitives (``catalogue``) and the rows of these modules
(``reference``).
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
import warnings

from nirmap.errors import MappingError
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import Row

ENTRY_POINTS = "nirmap.neurons"


def load_extensions() -> tuple[Row, ...]:
    """Adds the primitives of all installed packages to the catalogue, and gives the rows of their reference modules.

    Warns:
        UserWarning: a package cannot be imported; its neurons are not known then.

    Raises:
        MappingError: two packages declare a primitive of one name.
    """
    return _loaded(tuple(sys.path))


@functools.cache
def _loaded(path: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows of all packages on a path."""
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    rows: dict[str, tuple[Row, ...]] = {}
    for point in sorted(points, key=lambda entry: entry.value):
        if point.value not in rows:
            rows[point.value] = _register(point.value)
    return tuple(row for found in rows.values() for row in found)


def _register(package: str) -> tuple[Row, ...]:
    """Adds the primitives of a package."""
    try:
        catalogue = importlib.import_module(f"{package}.catalogue")
        reference = importlib.import_module(f"{package}.reference")
    except Exception as error:  # noqa: BLE001  (whatever a stranger's package raises; it is told)
        warnings.warn(
            f"the neurons of {package!r} are not known, since it cannot be imported ({type(error).__name__}: {error}); "
            "generate it anew, or uninstall it",
            stacklevel=2,
        )
        return ()
    for name, primitive in catalogue.PRIMITIVES.items():
        if PRIMITIVES.setdefault(name, primitive) is not primitive:
            raise MappingError(
                f"entry point {package!r} of group {ENTRY_POINTS}",
                f"a primitive {name!r}, of which there is one already",
                "a name of its own for each primitive",
                "rename it, or uninstall one of the packages",
            )
    rows: tuple[Row, ...] = reference.ROWS
    return rows


def forget() -> None:
    """Looks for packages anew, so that one is found that was installed while the process runs."""
    importlib.invalidate_caches()
    _loaded.cache_clear()
