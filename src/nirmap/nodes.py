"""The nodes that NIR does not have, one class for each primitive of ``mappings/extensions/``."""

from nirmap_registry.nodes import *  # noqa: F403
