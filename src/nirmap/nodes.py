"""The nodes that NIR does not have, one class for each primitive of ``mappings/extensions/``."""

from __future__ import annotations

from nirmap_registry.nodes import *  # noqa: F403
