"""The figure of a comparison: if these fail, it shows other numbers than were computed, or hides a framework."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
from matplotlib.colors import to_hex

import nirmap
from nirmap.figures import COLOURS
from nirmap.oracle.interpreter import simulate
from oracle.building import chain

DT, STEPS, SIZE = 1e-3, 60, 3


def network(tau: float = 0.02) -> nir.NIRGraph:
    ones = np.ones(SIZE)
    weight = np.diag([0.2, 1.0, 0.6])
    neurons = nir.LIF(ones * tau, ones * 8, ones * 0, ones * 0.25, v_reset=ones * 0)
    graph = chain([nir.Linear(weight), neurons], (SIZE,), names=["input", "fc", "lif", "output"])
    graph.nodes["rec"] = nir.Linear(np.eye(SIZE) * -0.1)
    graph.edges += [("lif", "rec"), ("rec", "lif")]
    return graph


def xs() -> Any:
    return np.random.default_rng(0).uniform(0, 1, (STEPS, SIZE))


@pytest.fixture(scope="module")
def comparison() -> nirmap.Comparison:
    frameworks = {"torch": "torch", "norse": "norse", "slow": nirmap.from_nir(network(0.03), dt=DT)}
    return nirmap.compare(network(), xs(), frameworks, dt=DT)


def lines(panel: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in panel.get_lines()}


def panels(figure: Any) -> dict[str, Any]:
    return {panel.get_ylabel(): panel for panel in figure.axes}


def strokes(panel: Any) -> dict[str, list[float]]:
    return {
        entry.get_label(): sorted(float(path.vertices[0, 0]) for path in entry.get_paths())
        for entry in panel.collections
    }


def test_every_panel_shows_what_was_computed(comparison: nirmap.Comparison) -> None:
    trace = simulate(network(), xs()[:, None], DT)
    spikes = trace.values[("lif",)][:, 0]
    busiest = int(spikes.sum(axis=0).argmax())
    shown = panels(comparison.draw())
    assert list(shown) == ["input (A)", "membrane potential (V)", "difference (V)", "spikes"]
    times = np.arange(STEPS) * DT

    arrived = trace.values[("fc",)] + trace.values[("rec",)]
    (line,) = shown["input (A)"].get_lines()
    np.testing.assert_allclose(line.get_xdata(), times)
    np.testing.assert_allclose(line.get_ydata(), arrived[:, 0, busiest], rtol=1e-5, atol=1e-6)

    curves = lines(shown["membrane potential (V)"])
    assert {"reference", "torch", "norse", "slow", "threshold"} <= set(curves)
    v = trace.states[("lif",)]["v"][:, 0, busiest]
    for name in ("reference", "torch", "norse", "_torch"):
        np.testing.assert_allclose(curves[name].get_xdata(), times)
        np.testing.assert_allclose(curves[name].get_ydata(), v, rtol=1e-4, atol=1e-5)
    assert np.abs(curves["slow"].get_ydata() - v).max() > 0.02
    np.testing.assert_allclose(curves["threshold"].get_ydata(), 0.25)

    apart = lines(shown["difference (V)"])
    np.testing.assert_allclose(
        np.nan_to_num(apart["slow"].get_ydata()),
        np.abs(curves["slow"].get_ydata() - curves["reference"].get_ydata()),
    )
    assert shown["difference (V)"].get_yscale() == "log"

    fired = strokes(shown["spikes"])
    assert set(fired) == {"reference", "torch", "norse", "slow"}
    for name in ("reference", "torch", "norse"):
        np.testing.assert_allclose(fired[name], times[spikes[:, busiest] > 0])
    assert len(fired["slow"]) == int(
        simulate(network(0.03), xs()[:, None], DT).values[("lif",)][:, 0, busiest].sum()
    )
    assert [text.get_text() for text in shown["spikes"].get_yticklabels()] == list(fired)
    assert shown["spikes"].get_xlabel() == "time (s)"


def test_the_legend_names_every_line_in_its_colour(comparison: nirmap.Comparison) -> None:
    figure: Any = comparison.draw()
    curves = lines(panels(figure)["membrane potential (V)"])
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["reference", "torch", "norse", "slow", "threshold"]
    for name, handle in zip(names, legend.get_lines(), strict=True):
        assert to_hex(handle.get_color()) == to_hex(curves[name].get_color())


def test_lines_that_coincide_take_turns() -> None:
    """At every place of the line exactly one framework has its dash."""
    frameworks = dict.fromkeys("abcdef", "torch")
    same = nirmap.compare(network(), xs(), frameworks, dt=DT)
    curves = lines(panels(same.draw())["membrane potential (V)"])
    places = np.arange(0.5, 84, 1.0)
    drawn = np.zeros((6, len(places)), bool)
    for row, name in enumerate(frameworks):
        # The pattern as matplotlib keeps it: its offset, and lengths of dash and gap, in points.
        offset, (dash, gap) = curves[name]._unscaled_dash_pattern
        drawn[row] = (places + offset) % (dash + gap) < dash
    np.testing.assert_array_equal(drawn.sum(axis=0), 1)
    assert len({to_hex(curves[name].get_color()) for name in frameworks}) == len(COLOURS) == 6
    assert curves["reference"].get_linewidth() > curves["a"].get_linewidth() + 3


def test_the_node_and_the_neuron_can_be_chosen(comparison: nirmap.Comparison) -> None:
    trace = simulate(network(), xs()[:, None], DT)
    figure: Any = comparison.draw(node="fc", neuron=2)
    shown = panels(figure)
    assert list(shown) == ["input", "output", "difference"]
    np.testing.assert_allclose(
        lines(shown["output"])["norse"].get_ydata(), trace.values[("fc",)][:, 0, 2], rtol=1e-5
    )
    assert figure.get_suptitle() == "Linear 'fc', neuron (2)   dt = 0.001 s"
    with pytest.raises(nirmap.NirmapError, match="neuron: 3; expected 0 to 2, the elements of 'lif'"):
        comparison.draw(neuron=3)
    with pytest.raises(nirmap.NirmapError, match="the graph has no 'absent'"):
        comparison.draw(node="absent")


def test_a_framework_that_cannot_run_has_its_row() -> None:
    graph = network()
    neurons: Any = graph.nodes["lif"]
    neurons.v_reset = np.full(SIZE, 0.3)
    refused = nirmap.compare(graph, xs(), ["torch", "snntorch"], dt=DT)
    shown = panels(refused.draw())
    assert set(strokes(shown["spikes"])) == {"reference", "torch"}
    assert [(text.get_text(), text.get_position()[1]) for text in shown["spikes"].texts] == [
        ("cannot run", 2)
    ]
    assert "snntorch" not in lines(shown["membrane potential (V)"])


def test_a_recording_is_drawn_in_full_with_markers(comparison: nirmap.Comparison) -> None:
    trace = simulate(network(), xs()[:, None], DT)
    v = trace.states[("lif",)]["v"]
    recorded = comparison.with_recorded({"v": v, "output": trace.values[("lif",)]})
    shown = panels(recorded.draw(neuron=1))
    line = lines(shown["membrane potential (V)"])["recorded"]
    np.testing.assert_array_equal(line.get_ydata(), v[:, 0, 1])
    assert line.get_marker() == "o"
    times = np.arange(STEPS) * DT
    np.testing.assert_allclose(
        strokes(shown["spikes"])["recorded"], times[trace.values[("lif",)][:, 0, 1] > 0]
    )
    only_v = panels(comparison.with_recorded({"v": v}).draw())
    assert [text.get_text() for text in only_v["spikes"].texts] == ["not known"]


def test_a_threshold_out_of_reach_does_not_flatten_the_curves() -> None:
    graph = network()
    neurons: Any = graph.nodes["lif"]
    neurons.v_threshold = np.full(SIZE, 50.0)
    figure: Any = nirmap.compare(graph, xs(), ["torch"], dt=DT).draw(node="lif")
    panel = panels(figure)["membrane potential (V)"]
    assert panel.get_title(loc="right") == "threshold 50 V, above"
    low, high = panel.get_ylim()
    curve = lines(panel)["torch"].get_ydata()
    assert curve.max() - curve.min() > 0.8 * (high - low)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["reference", "torch"]


def test_where_nothing_differs_the_figure_says_so() -> None:
    gain = chain([nir.Scale(np.full(SIZE, 2.0))], (SIZE,))
    shown = panels(nirmap.compare(gain, xs(), ["torch"], dt=DT).draw(node="0"))
    assert [text.get_text() for text in shown["difference"].texts] == ["none"]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_comparison_is_the_same_file(
    suffix: str, comparison: nirmap.Comparison, tmp_path: Path
) -> None:
    matplotlib: Any = importlib.import_module("matplotlib")
    first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
    comparison.draw(first)
    with matplotlib.rc_context({"svg.hashsalt": None, "lines.linewidth": 9, "font.size": 30}):
        comparison.draw(second)
        assert matplotlib.rcParams["font.size"] == 30  # the user's settings stay
    assert first.read_bytes() == second.read_bytes()
    start = {"svg": b"<?xml", "png": b"\x89PNG"}[suffix]
    assert first.read_bytes().startswith(start)
    assert b"<dc:date>" not in first.read_bytes()


def test_names_are_text_and_no_formulas(tmp_path: Path) -> None:
    name = "$\\frac{_\n$"
    graph = chain([nir.LI(np.ones(1), np.ones(1), np.zeros(1))], (1,), names=["input", name, "output"])
    comparison = nirmap.compare(graph, np.ones((5, 1)), {"$a_b^": "torch"}, dt=DT)
    figure: Any = comparison.draw(tmp_path / "names.svg", node=name)
    assert "$" in figure.get_suptitle()
    assert "\n" not in figure.get_suptitle()
    assert "$a_b^" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_another_suffix_is_refused(comparison: nirmap.Comparison, tmp_path: Path) -> None:
    with pytest.raises(nirmap.NirmapError, match=r"the suffix '.jpg'; expected .png or .svg"):
        comparison.draw(tmp_path / "figure.jpg")


def test_without_matplotlib_the_error_says_what_to_install(
    comparison: nirmap.Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(nirmap.NirmapError, match=r"not installed.*pip install 'nirmap\[plot\]'"):
        comparison.draw()
