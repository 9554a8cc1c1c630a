"""The page with the equations. If these fail, somebody reads another neuron than the one that is computed."""

from __future__ import annotations

import re
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from declaring import GENERATED, copied, declared, edited
from nirmap_generator.expressions import parse
from nirmap_generator.pipeline import NEURONS_PAGE, read, render
from nirmap_generator.typesetting import derivative, equation, markdown, symbol

GIVEN = [name for name, primitive in declared().catalogue.primitives.items() if primitive.output is not None]
PAGE = (GENERATED / NEURONS_PAGE).read_text(encoding="utf-8")
HOSTILE = "<script>alert(1)</script> $\\input{x}$ | `a` [b](javascript:c) ![d](e) **f** &lt; {{ g }}\n\n# h"


def section(page: str, name: str) -> str:
    (text,) = re.findall(rf"^### {name}\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    return str(text)


def formulas(text: str) -> list[str]:
    return re.findall(r"^\$\$\n(.*)\n\$\$$", text, re.MULTILINE)


@pytest.mark.parametrize("name", GIVEN)
def test_every_primitive_with_equations_is_there_with_all_that_it_is(name: str) -> None:
    primitive = declared().catalogue.primitives[name]
    text = section(PAGE, name)
    assert markdown(primitive.description) in text
    for parameter in primitive.parameters.values():
        assert re.search(rf"^\| `{parameter.name}` \| \$.*\$ \| .+ \| `.+` \| .*\|$", text, re.MULTILINE)
    count = len(primitive.dynamics) + len(primitive.reset) + len(primitive.reset_by_subtraction)
    assert len(formulas(text)) == count + (primitive.spike is not None) + 1
    assert re.search(r"^Frameworks with a row for it: .*torch \(", text, re.MULTILINE)


def test_the_primitives_of_nir_are_apart_from_the_others() -> None:
    own, _, others = PAGE.partition("## Primitives that NIR does not have")
    extensions = [name for name in GIVEN if declared().catalogue.primitives[name].is_extension]
    assert re.findall(r"^### (\w+)$", others, re.MULTILINE) == extensions
    assert len(re.findall(r"^### ", own, re.MULTILINE)) == len(GIVEN) - len(extensions)


def test_the_equations_of_lif_in_the_order_of_a_step() -> None:
    text = section(PAGE, "LIF")
    assert formulas(text) == [
        r"\frac{\mathrm{d} v}{\mathrm{d} t} = "
        r"\frac{\mathrm{input} \cdot r - v + v_{\mathrm{leak}}}{\tau}",
        r"v \gt v_{\mathrm{threshold}}",
        r"v \leftarrow v_{\mathrm{reset}}",
        r"v \leftarrow v + v_{\mathrm{reset}} - v_{\mathrm{threshold}}",
        r"\mathrm{output} = \mathrm{spike}",
    ]
    assert r"| `tau` | $\tau$ | membrane time constant | `s` |  |" in text
    assert "Methods: `forward_euler`, `exponential`." in text
    assert re.search("Frameworks .*norse .*rockpool .*sinabs .*snntorch .*spikingjelly .*torch", text)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("0.04 * v**2 + 5 * v", r"0.04 \cdot v^{2} + 5 \cdot v"),
        ("-0.5 * v", r"- 0.5 \cdot v"),
        ("exp((v - v_t) / delta_t)", r"e^{\frac{v - v_{\mathrm{t}}}{\delta_{\mathrm{t}}}}"),
        ("where(v > 1, 0, v)", r"\begin{cases} 0 & \text{for } v \gt 1 \cr v & \text{otherwise} \end{cases}"),
        ("delayed(input, delay)", r"\mathrm{input}{\left(- \mathrm{delay} + t \right)}"),
    ],
)
def test_formulas_as_one_would_write_them(text: str, latex: str) -> None:
    assert equation(parse(text)) == latex


def test_names_as_one_would_write_them() -> None:
    assert [symbol(name) for name in ("tau_mem", "v", "w_in_out", "delay")] == [
        r"\tau_{\mathrm{mem}}",
        "v",
        r"w_{\mathrm{in,out}}",
        r"\mathrm{delay}",
    ]
    assert derivative("v_m") == r"\frac{\mathrm{d} v_{\mathrm{m}}}{\mathrm{d} t}"


@hypothesis.given(st.text(alphabet=st.sampled_from(sorted(set(HOSTILE) | set("-+=.)12~#_:!"))), min_size=1))
def test_a_text_shows_as_it_is(text: str) -> None:
    """As Markdown has it: one paragraph with the text's characters, and nothing else in it."""
    hypothesis.assume(text.strip())
    escaped = markdown(text)
    assert escaped.replace("<span>$</span>", "").count("$") == 0
    tokens = MarkdownIt("commonmark").enable("table").parse(escaped.replace("<span>$</span>", "$"))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children) == " ".join(text.split())


def test_a_hostile_description_stays_a_description(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    quoted = '"' + HOSTILE.replace("\\", "\\\\").replace("\n", "\\n") + '"'
    file = folder / "extensions" / "adaptive.yaml"
    edited(file, "Adaptive leaky integrate-and-fire neuron.", quoted)
    edited(file, "membrane time constant", quoted)
    edited(
        file, '"Gerstner et al., Neuronal Dynamics, 2014, section 6.1, without the exponential term"', quoted
    )
    text = section(render(read(folder))[NEURONS_PAGE], "AdLIF")
    assert formulas(text) == formulas(section(PAGE, "AdLIF"))
    without = text.replace("<span>$</span>", "")
    assert without.count("$") == section(PAGE, "AdLIF").count("$")
    tokens = MarkdownIt("commonmark").enable("table").parse(without)
    inner = [child.type for token in tokens for child in token.children or []]
    assert not {"html_inline", "link_open", "image", "strong_open"} & set(inner)
    assert not {"html_block", "heading_open"} & {token.type for token in tokens}
    rows = [line for line in text.splitlines() if line.startswith("| `tau` ")]
    assert len(re.split(r"(?<!\\)\|", rows[0])) == 7
