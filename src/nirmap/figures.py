"""Draws a comparison: what one neuron received and did, in every framework and in the reference.

Lines that lie on one another stay legible: each framework's line is dashed, with gaps where the dashes of the others
are, above a wide band that is the reference. The colours are those of Okabe and Ito ("Color Universal Design", 2008),
which people with any colour vision tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import nir
import numpy as np

from nirmap.comparison import OUTPUT, Comparison, Result, node_name
from nirmap.errors import NirmapError
from nirmap.observing import Array, Path
from nirmap_registry.catalogue import PRIMITIVES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# matplotlib.axes.Axes, whose annotations leave the types of many arguments open.
_Panel = Any
SUFFIXES = (".png", ".svg")
# Okabe and Ito's, but for yellow, which is too light for a line, and black, which the reference's spikes have.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
BAND, INK, FAINT = "#C4C4C4", "#000000", "#767676"
# Points: length of a dash, width of a dash, of a dash among differences, of the thin line under it, and of the
# reference's band.
DASH, THICK, DIFFERENCE, THIN, WIDE = 7.0, 2.2, 1.4, 0.7, 6.0
# A threshold is drawn as a line where it is no further from the curves than so many times their height.
_FAR = 3.0
# About so many of a recording's points get a marker.
_MARKERS = 40
_WIDTH, _DOTS_PER_INCH = 8.0, 150
# Letters that fit side by side into a legend, and those that a line and the space around it take.
_LEGEND_LETTERS, _HANDLE_LETTERS = 110, 8
# Everything that a user's matplotlibrc could change is at its default. Names are shown as they are: no formulas.
_SETTINGS: dict[str, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.0,
    "legend.frameon": False,
    "lines.scale_dashes": False,
    "svg.hashsalt": "nirmap",
    "text.parse_math": False,
}


@dataclass(frozen=True)
class _Neuron:
    """What is drawn.

    Attributes:
        comparison: the comparison.
        path: the node.
        index: the element in the node's shape, in the first row of the batch.
        drawn: the results that ran and show the node.
        times: when each step begins, in s.
    """

    comparison: Comparison
    path: Path
    index: tuple[int, ...]
    drawn: tuple[Result, ...]
    times: Array

    @property
    def node(self) -> nir.NIRNode:
        """The node itself."""
        node: Any = self.comparison.graph
        for name in self.path:
            node = node.nodes[name]
        found: nir.NIRNode = node
        return found

    @property
    def fires(self) -> bool:
        """Whether its outputs are spikes."""
        return self.path in self.comparison.reference.thresholds

    def of(self, values: Array) -> Array:
        """This element's trace."""
        of_row: Any = values[:, 0]
        trace: Array = of_row[(slice(None), *self.index)]
        return trace

    def variable(self, name: str) -> list[tuple[str, Array]]:
        """The traces of a variable: the reference's first, then those of all results that show it."""
        traces = [("reference", self.comparison.reference.traces)]
        traces += [(result.name, result.traces) for result in self.drawn if result.traces]
        tables = [
            (label, entry.values if name == OUTPUT else entry.states.get(self.path, {}))
            for label, entry in traces
        ]
        key: Any = self.path if name == OUTPUT else name
        return [(label, self.of(table[key])) for label, table in tables if key in table]


def draw(comparison: Comparison, path: Path, neuron: int | None = None) -> Figure:
    """The figure of one neuron; see :meth:`nirmap.Comparison.draw`.

    Args:
        comparison: the comparison.
        path: the node.
        neuron: the element, counted through the node's shape; None for the one with the most spikes.

    Raises:
        NirmapError: matplotlib is not installed, or the node has no such element.
    """
    matplotlib = _matplotlib()
    what = _neuron(comparison, path, neuron)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        return _draw(what)


def save(figure: Any, path: FilePath) -> None:
    """Writes a figure; the same one gives the same bytes with the same version of matplotlib.

    Raises:
        NirmapError: the suffix is neither ``.png`` nor ``.svg``.
        OSError: the file cannot be written.
    """
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise NirmapError(f"figure {str(path)!r}", f"the suffix {path.suffix!r}", " or ".join(SUFFIXES))
    matplotlib = _matplotlib()
    # What a file says of its origin would differ from day to day.
    metadata = {"Software": None} if kind == ".png" else {"Date": None, "Creator": "nirmap"}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure.savefig(path, format=kind[1:], dpi=_DOTS_PER_INCH, metadata=metadata)


def _matplotlib() -> Any:
    try:
        import matplotlib as found
    except ImportError as error:
        raise NirmapError(
            "figure", "matplotlib is not installed", "matplotlib 3.8 or newer", "pip install 'nirmap[plot]'"
        ) from error
    return found


def _neuron(comparison: Comparison, path: Path, neuron: int | None) -> _Neuron:
    values = comparison.reference.traces.values[path]
    shape = values.shape[2:]
    size = int(np.prod(shape))
    if neuron is None:
        spikes = values[:, 0].sum(axis=0) if path in comparison.reference.thresholds else np.zeros(shape)
        neuron = int(spikes.argmax())
    if not 0 <= neuron < size:
        raise NirmapError("neuron", str(neuron), f"0 to {size - 1}, the elements of {node_name(path)!r}")
    index = tuple(int(i) for i in np.unravel_index(neuron, shape))
    drawn = tuple(result for result in comparison.results if result.traces and path in result.nodes)
    times: Array = np.arange(comparison.steps, dtype=np.float64) * comparison.dt
    return _Neuron(comparison, path, index, drawn, times)


def _draw(what: _Neuron) -> Figure:
    from matplotlib.figure import Figure

    shown = _curve(what)
    arriving = _arriving(what)
    rows = len(what.comparison.results) + 1
    heights = {"input": 0.9 if arriving is not None else 0, "curve": 2.4 if shown else 0}
    heights |= {"difference": 1.2 if shown else 0, "spikes": 0.4 + 0.2 * rows if what.fires else 0}
    heights = {name: height for name, height in heights.items() if height}
    figure: Any = Figure(figsize=(_WIDTH, 1.4 + sum(heights.values())), layout="constrained")
    panels = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, height_ratios=list(heights.values())
    )
    axes: dict[str, _Panel] = dict(zip(heights, panels[:, 0], strict=True))
    if arriving is not None:
        axes["input"].step(what.times, arriving, where="post", color=INK, linewidth=1.0, label="input")
        axes["input"].set_ylabel(f"input{_input_unit(what.node)}")
    if shown:
        _draw_curves(axes["curve"], what, shown)
        _draw_differences(axes["difference"], what, shown)
    if what.fires:
        _draw_spikes(axes["spikes"], what)
    for panel in axes.values():
        panel.margins(x=0.01)
    panels[-1, 0].set_xlabel("time (s)")
    figure.align_ylabels()
    _title(figure, what)
    drawn: Figure = figure
    return drawn


def _curve(what: _Neuron) -> str:
    """The variable that is drawn as a curve: the membrane potential, or else the output; none where that is spikes."""
    if "v" in what.comparison.reference.traces.states.get(what.path, {}):
        return "v"
    return "" if what.fires else OUTPUT


def _arriving(what: _Neuron) -> Array | None:
    """The sum of the node's incoming edges in the reference; None where it has none, or another shape."""
    reference, graph = what.comparison.reference, what.comparison.graph
    parent: Any = graph
    for name in what.path[:-1]:
        parent = parent.nodes[name]
    total: Array | None = None
    for source in sorted(source for source, target in parent.edges if target == what.path[-1]):
        path = (*what.path[:-1], source)
        values = reference.traces.values[path]
        if values.shape != reference.traces.values[what.path].shape:
            return None
        trace = what.of(values)
        if (path, what.path) in reference.delayed:
            trace = np.concatenate([np.zeros(1), trace[:-1]])
        total = trace if total is None else total + trace
    return total


def _input_unit(node: nir.NIRNode) -> str:
    """The unit of a node's input, in brackets; nothing where that is a plain number."""
    primitive = PRIMITIVES.get(type(node).__name__)
    return "" if primitive is None or primitive.input_unit in ("", "1") else f" ({primitive.input_unit})"


def _label(node: nir.NIRNode, variable: str) -> str:
    """What a variable is, with its unit."""
    primitive = PRIMITIVES.get(type(node).__name__)
    for entry in primitive.state if primitive else ():
        if entry.name == variable:
            return f"{entry.description} ({entry.unit})"
    return variable


def _colour(what: _Neuron, name: str) -> str:
    names = [result.name for result in what.comparison.results]
    return COLOURS[names.index(name) % len(COLOURS)]


def _dashed(panel: _Panel, what: _Neuron, lines: Iterable[tuple[str, Array]], width: float = THICK) -> None:
    """A line for each framework, thin all along, and thick where it is its turn."""
    every = list(lines)
    turn = DASH * len(every)
    for place, (name, values) in enumerate(every):
        colour = _colour(what, name)
        style = (-place * DASH % turn, (DASH, turn - DASH)) if len(every) > 1 else "-"
        panel.plot(what.times, values, color=colour, linewidth=THIN, zorder=3, label=f"_{name}")
        panel.plot(
            what.times,
            values,
            color=colour,
            linewidth=width,
            linestyle=style,
            dash_capstyle="butt",
            zorder=4,
            label=name,
        )


def _recorded(what: _Neuron, name: str) -> bool:
    """Whether a result is a recording, and no network."""
    return any(result.name == name and result.report is None for result in what.drawn)


def _draw_curves(panel: _Panel, what: _Neuron, variable: str) -> None:
    (_, reference), *others = what.variable(variable)
    panel.plot(
        what.times, reference, color=BAND, linewidth=WIDE, solid_capstyle="round", zorder=2, label="reference"
    )
    _dashed(panel, what, (entry for entry in others if not _recorded(what, entry[0])))
    for name, values in others:
        if _recorded(what, name):
            panel.plot(
                what.times,
                values,
                color=INK,
                linestyle="none",
                marker="o",
                markersize=4.5,
                markerfacecolor="none",
                markevery=max(1, len(values) // _MARKERS),
                zorder=5,
                label=name,
            )
    if variable == "v" and what.fires:
        _draw_threshold(panel, what)
    panel.set_ylabel(_label(what.node, variable))


def _threshold(what: _Neuron) -> float:
    return float(what.comparison.reference.thresholds[what.path][what.index])


def _draw_threshold(panel: _Panel, what: _Neuron) -> None:
    """A line, or words where it is so far off that the curves would be flat beside it."""
    threshold = _threshold(what)
    low, high = panel.get_ylim()
    if low - _FAR * (high - low) <= threshold <= high + _FAR * (high - low):
        panel.axhline(threshold, color=FAINT, linewidth=0.8, linestyle=":", zorder=1, label="threshold")
        return
    text = f"threshold {threshold:g} V, {'above' if threshold > high else 'below'}"
    panel.set_title(text, loc="right", fontsize="medium", color=FAINT)


def _draw_differences(panel: _Panel, what: _Neuron, variable: str) -> None:
    """How far each is from the reference; a step without any difference is a gap in the line."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    (_, reference), *others = what.variable(variable)
    apart = [(name, np.abs(values - reference)) for name, values in others]
    gaps = [(name, np.where(values > 0, values, np.nan)) for name, values in apart]
    if any(np.isfinite(values).any() for _, values in gaps):
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(_power))
        panel.yaxis.set_minor_locator(NullLocator())
    else:
        panel.set_yticks([])
        panel.text(0.5, 0.5, "none", transform=panel.transAxes, ha="center", va="center", color=FAINT)
    for name, values in gaps:
        if _recorded(what, name):
            panel.plot(what.times, values, color=INK, linewidth=0.5, zorder=2, label=name)
    _dashed(panel, what, (entry for entry in gaps if not _recorded(what, entry[0])), DIFFERENCE)
    _, bracket, unit = _label(what.node, variable).rpartition(" (")
    panel.set_ylabel("difference" + (f"{bracket}{unit}" if bracket else ""))


def _power(value: float, _: int | None) -> str:
    """The label of a tick on a logarithmic axis."""
    return f"{value:.0e}"


def _draw_spikes(panel: _Panel, what: _Neuron) -> None:
    """A row of strokes for each."""
    spikes = dict(what.variable(OUTPUT))
    rows = ["reference", *(result.name for result in what.comparison.results)]
    for row, name in enumerate(rows):
        colour = INK if name == "reference" or _recorded(what, name) else _colour(what, name)
        if name in spikes:
            times = what.times[spikes[name] > 0]
            panel.vlines(times, row - 0.36, row + 0.36, colors=colour, linewidth=1.6, label=name)
            continue
        text = "cannot run" if what.comparison.results[row - 1].error else "not known"
        panel.text(
            0.5, row, text, transform=panel.get_yaxis_transform(), ha="center", va="center", color=FAINT
        )
    panel.set_yticks(range(len(rows)), [_shown(name) for name in rows])
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    panel.set_ylabel("spikes")


def _title(figure: Any, what: _Neuron) -> None:
    """The node and what the lines are; a recording's markers and the reference's band included."""
    from matplotlib.lines import Line2D

    kind, index = type(what.node).__name__, ", ".join(map(str, what.index))
    row = ", batch row 0" if what.comparison.batch > 1 else ""
    name = _shown(node_name(what.path))
    figure.suptitle(f"{kind} {name!r}, neuron ({index}){row}   dt = {what.comparison.dt:g} s", fontsize=10)
    handles = [Line2D([], [], color=BAND, linewidth=WIDE, label="reference")]
    for result in what.drawn:
        if _recorded(what, result.name):
            marked: dict[str, Any] = {
                "linestyle": "none",
                "marker": "o",
                "markerfacecolor": "none",
                "markersize": 4.5,
            }
            handles.append(Line2D([], [], color=INK, label=_shown(result.name), **marked))
        else:
            colour = _colour(what, result.name)
            handles.append(Line2D([], [], color=colour, linewidth=THICK, label=_shown(result.name)))
    dotted = [line for panel in figure.axes for line in panel.get_lines() if line.get_label() == "threshold"]
    if dotted:
        handles.append(Line2D([], [], color=FAINT, linewidth=0.8, linestyle=":", label="threshold"))
    widest = max(len(str(handle.get_label())) for handle in handles)
    rows = math.ceil(len(handles) / max(1, _LEGEND_LETTERS // (widest + _HANDLE_LETTERS)))
    columns = math.ceil(len(handles) / rows)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _shown(name: str) -> str:
    """A name with everything that is not printable as an escape."""
    return name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
