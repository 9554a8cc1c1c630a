"""Models that cannot be recorded whatever their forward does: compiled, wrapped, or without numbers yet."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import is_lazy

from nirmap.errors import TraceError

# What torch wraps a model into, by the class, and the attribute with the model.
_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "AveragedModel": "module",
}


def check_recordable(root: torch.nn.Module) -> None:
    """Refuses a model that is compiled or wrapped, or has a parameter without numbers.

    Raises:
        TraceError: it is, with the module or parameter.
    """
    kind_of_all: Any = torch.nn.Module
    modules: list[tuple[str, torch.nn.Module]] = list(kind_of_all.named_modules(root))
    for path, module in modules:
        kind = type(module)
        where = f"module {path!r} ({kind.__name__})" if path else f"module {kind.__name__}"
        if isinstance(module, torch.jit.ScriptModule):
            do = "pass the module from which torch.jit.script or torch.jit.trace made it"
            raise TraceError(where, "a module that is compiled with torch.jit", "a module in Python", do)
        held = _WRAPPERS.get(kind.__name__) if kind.__module__.startswith("torch.") else None
        if held is not None:
            do = f"pass the module that it has as {held}"
            raise TraceError(where, f"a {kind.__name__} around the module", "the module itself", do)
        for name, tensor in (*vars(module)["_parameters"].items(), *vars(module)["_buffers"].items()):
            if tensor is None:
                continue
            if is_lazy(tensor):
                do = "call the model once, so that torch finds its shape"
                raise TraceError(where, f"{name}, which has no shape yet", "a tensor", do)
            if tensor.is_meta:
                do = "load the weights first, or move the module with to_empty"
                raise TraceError(where, f"{name} on the device meta", "a tensor with numbers", do)
