"""The frameworks' own converters, with nirmap's two functions in the place of nirtorch's.

If these fail, a framework cannot switch from nirtorch by changing its import. Those that still call ``nirtorch.load``
and ``nirtorch.extract_nir_graph`` pass the same functions to the new names.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import nir
import nirtorch
import numpy as np
import pytest
import torch

import nirmap

Tensor = torch.Tensor
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def network(threshold: float = 0.3, *, recurrent: bool = False) -> nir.NIRGraph:
    """A layer and neurons that fire, at any framework's time step."""
    one = np.ones(4, np.float32)
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes: dict[str, nir.NIRNode] = {
        "input": nir.Input({"input": np.array([3])}),
        "fc": nir.Affine(weight, one),
        "lif": nir.LIF(0.01 * one, one, 0 * one, threshold * one, 0 * one),
        "output": nir.Output({"output": np.array([4])}),
    }
    edges = [("input", "fc"), ("fc", "lif"), ("lif", "output")]
    if recurrent:
        nodes["back"] = nir.Linear(np.full((4, 4), -0.5, np.float32))
        edges += [("lif", "back"), ("back", "lif")]
    return nir.NIRGraph(nodes, edges)


def spikes(net: torch.nn.Module) -> Tensor:
    state, outputs = None, list[Tensor]()
    for x in torch.rand(30, 2, 3, generator=torch.Generator().manual_seed(1)):
        output, state = net(x, state)
        outputs.append(output.detach())
    return torch.stack(outputs)


def in_place_of_nirtorch() -> Any:
    """nirtorch as a framework sees it, with the two functions exchanged."""
    names = {name: value for name, value in vars(nirtorch).items() if not name.startswith("__")}
    return SimpleNamespace(
        **{**names, "nir_to_torch": nirmap.nir_to_torch, "torch_to_nir": nirmap.torch_to_nir}
    )


def agrees(first: Callable[[], torch.nn.Module], second: Callable[[], torch.nn.Module]) -> None:
    """Both networks fire, and at the same steps."""
    expected, found = spikes(first()), spikes(second())
    assert expected.any()
    torch.testing.assert_close(found, expected)


def kinds(graph: nir.NIRGraph) -> list[str]:
    return sorted(type(node).__name__ for node in graph.nodes.values())


def parameters(graph: nir.NIRGraph, kind: type[nir.NIRNode]) -> dict[str, Any]:
    """The parameters of the only node of a kind."""
    (node,) = (node for node in graph.nodes.values() if type(node) is kind)
    names = ("weight", "bias", "tau", "r", "v_threshold", "v_leak", "v_reset")
    return {name: np.asarray(getattr(node, name)) for name in names if hasattr(node, name)}


def same_parameters(first: nir.NIRGraph, second: nir.NIRGraph, *compared: type[nir.NIRNode]) -> None:
    assert kinds(first) == kinds(second)
    for kind in compared:
        expected, found = parameters(first, kind), parameters(second, kind)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, err_msg=f"{kind.__name__}.{name}")


def test_snntorch_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    from snntorch import import_nir

    theirs = import_nir.import_from_nir(network(0.01))
    monkeypatch.setattr(import_nir, "nirtorch", in_place_of_nirtorch())
    agrees(lambda: theirs, lambda: import_nir.import_from_nir(network(0.01)))


@pytest.mark.parametrize("recurrent", [False, True])
def test_spikingjelly_imports(monkeypatch: pytest.MonkeyPatch, recurrent: bool) -> None:
    from spikingjelly.activation_based.nir_exchange import from_nir

    theirs = from_nir.import_from_nir(network(recurrent=recurrent), dt=1e-3)
    monkeypatch.setattr(from_nir, "nirtorch", in_place_of_nirtorch())
    agrees(lambda: theirs, lambda: from_nir.import_from_nir(network(recurrent=recurrent), dt=1e-3))


def test_spikingjelly_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    from spikingjelly.activation_based import layer, neuron
    from spikingjelly.activation_based.nir_exchange import to_nir

    model: Any = torch.nn.Sequential(layer.Linear(3, 4), neuron.LIFNode(tau=10.0, v_reset=0.0))
    theirs = to_nir.export_to_nir(model, torch.rand(2, 3), dt=1e-3)
    monkeypatch.setattr(to_nir, "nirtorch", in_place_of_nirtorch())
    same_parameters(theirs, to_nir.export_to_nir(model, torch.rand(2, 3), dt=1e-3), nir.Affine, nir.LIF)


# Those that call the older names


def load(node: nir.NIRNode, model_map: Any, return_state: bool = True) -> torch.nn.Module:
    """What stands in the place of ``nirtorch.load``."""
    return nirmap.nir_to_torch(node, model_map)


def extracting(framework: str) -> Any:
    """What stands in the place of ``nirtorch.extract_nir_graph``."""

    def extract(model: torch.nn.Module, model_map: Any, sample_data: Tensor, **_: Any) -> nir.NIRGraph:
        return nirmap.torch_to_nir(model, model_map, sample=sample_data, framework=framework)

    return extract


def test_norse_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    from norse.torch.utils import import_nir

    theirs = import_nir.from_nir(network())
    monkeypatch.setattr(nirtorch, "load", load)
    agrees(lambda: theirs, lambda: import_nir.from_nir(network()))


def test_norse_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    import norse.torch as norse
    from norse.torch.utils import export_nir

    one = torch.ones(4)
    values: Any = norse.LIFBoxParameters(tau_mem_inv=100 * one, v_th=one, v_leak=0 * one)
    model = norse.SequentialState(torch.nn.Linear(3, 4), norse.LIFBoxCell(p=values))
    theirs: Any = export_nir.to_nir(model, torch.rand(2, 3))
    monkeypatch.setattr(export_nir, "extract_nir_graph", extracting("norse"))
    ours: Any = export_nir.to_nir(model, torch.rand(2, 3))
    same_parameters(theirs, ours, nir.Affine, nir.LIF)


def test_sinabs_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    import sinabs.nir

    def integrators() -> nir.NIRGraph:
        graph = network()
        one = np.ones(4, np.float32)
        graph.nodes["lif"] = nir.IF(one, 2 * one)
        return graph

    xs = torch.rand(24, 3)
    expected = sinabs.nir.from_nir(integrators(), batch_size=2)(xs)[0]
    monkeypatch.setattr(nirtorch, "load", load)
    found = sinabs.nir.from_nir(integrators(), batch_size=2)(xs)[0]
    assert expected.any()
    torch.testing.assert_close(found, expected)


def test_sinabs_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    import sinabs.layers
    import sinabs.nir

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), sinabs.layers.IAFSqueeze(batch_size=1))
    theirs: Any = sinabs.nir.to_nir(model, torch.rand(5, 3))
    monkeypatch.setattr(nirtorch, "extract_nir_graph", extracting("sinabs"))
    ours: Any = sinabs.nir.to_nir(model, torch.rand(5, 3))
    same_parameters(theirs, ours, nir.Affine, nir.IF)


def test_snntorch_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    import snntorch
    from snntorch import export_nir

    export: Callable[..., Any] = getattr(export_nir, "export_to_nir")  # noqa: B009  (its types are incomplete)
    leaky = cast("Callable[..., Any]", snntorch.Leaky)
    one = torch.ones(4)
    neuron = leaky(0.9 * one, threshold=one, init_hidden=True, reset_mechanism="zero")
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), neuron)
    theirs = export(model, torch.rand(1, 3), ignore_dims=[0])
    monkeypatch.setattr(nirtorch, "extract_nir_graph", extracting("snntorch"))
    ours = export(model, torch.rand(1, 3), ignore_dims=[0])
    same_parameters(theirs, ours, nir.Affine, nir.LIF)
