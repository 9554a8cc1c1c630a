"""nirmap: spiking networks between PyTorch frameworks and NIR, from one declared table.

>>> net = nirmap.from_nir("model.nir", framework="norse", dt=1e-4)
>>> output, state = net(input)           # None is the initial state
>>> output, state = net(input, state)    # the state passed in is not changed
>>> outputs, state = nirmap.run(net, inputs)
>>> graph = nirmap.to_nir(net)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nirmap.comparing import compare
    from nirmap.comparison import Comparison
    from nirmap.dictionaries import nir_to_torch, torch_to_nir
    from nirmap.errors import (
        ConstraintError,
        DelayWarning,
        GraphError,
        MappingError,
        NirmapError,
        ReadBackWarning,
        TraceError,
        UnsupportedNodeError,
    )
    from nirmap.files import read, write
    from nirmap.network import Network
    from nirmap.rebuilding import from_nir
    from nirmap.report import NodeReport, Report
    from nirmap.running import run
    from nirmap.tracing import to_nir

__all__ = [
    "Comparison",
    "ConstraintError",
    "DelayWarning",
    "GraphError",
    "MappingError",
    "Network",
    "NirmapError",
    "NodeReport",
    "ReadBackWarning",
    "Report",
    "TraceError",
    "UnsupportedNodeError",
    "compare",
    "from_nir",
    "nir_to_torch",
    "read",
    "run",
    "to_nir",
    "torch_to_nir",
    "write",
]

# Where each public name is defined. Names are imported when they are first used, so that the commands about mappings
# do not wait for torch.
_DEFINED_IN = {
    **dict.fromkeys((name for name in __all__ if name.endswith(("Error", "Warning"))), "nirmap.errors"),
    "Comparison": "nirmap.comparison",
    "Network": "nirmap.network",
    "NodeReport": "nirmap.report",
    "Report": "nirmap.report",
    "compare": "nirmap.comparing",
    "from_nir": "nirmap.rebuilding",
    "nir_to_torch": "nirmap.dictionaries",
    "read": "nirmap.files",
    "run": "nirmap.running",
    "to_nir": "nirmap.tracing",
    "torch_to_nir": "nirmap.dictionaries",
    "write": "nirmap.files",
}


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'nirmap' has no attribute {name!r}")
    value = getattr(importlib.import_module(_DEFINED_IN[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
