"""Signals are weighted sums: adding and scaling them is arithmetic.

If these fail, a sum of three paths loses one of them.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nirmap.signals import Signal, Source

NUMBERS = st.integers(-4, 4).map(float)
SOURCES = st.tuples(st.sampled_from("abc"), st.booleans()).map(lambda pair: Source(*pair))
SIGNALS = st.dictionaries(SOURCES, NUMBERS, max_size=4).map(Signal)


def value(signal: Signal, now: dict[str, float], before: dict[str, float]) -> float:
    """What a signal is worth for given outputs of this step and the one before."""
    return sum(
        weight * (before if source.delayed else now)[source.node] for source, weight in signal.terms.items()
    )


OUTPUTS = st.fixed_dictionaries(dict.fromkeys("abc", NUMBERS))


@given(SIGNALS, SIGNALS, NUMBERS, OUTPUTS, OUTPUTS)
def test_sums_and_products_are_those_of_the_values(
    first: Signal, second: Signal, factor: float, now: dict[str, float], before: dict[str, float]
) -> None:
    expected = value(first, now, before) + factor * value(second, now, before)
    assert value(first.plus(second, factor), now, before) == expected
    assert value(first.plus(second.times(factor)), now, before) == expected


@given(
    SIGNALS,
    st.dictionaries(st.sampled_from("abc").map(Source), NUMBERS, max_size=3),
    NUMBERS,
    OUTPUTS,
    OUTPUTS,
)
def test_an_entry_of_the_state_is_what_the_step_before_made_of_it(
    signal: Signal,
    terms: dict[Source, float],
    weight: float,
    now: dict[str, float],
    before: dict[str, float],
) -> None:
    entry = Signal({Source("", True, 7): weight})
    joined = signal.plus(entry).with_entries({7: Signal(terms)})
    assert all(source.entry is None for source in joined.terms)
    assert value(joined, now, before) == value(signal, now, before) + weight * value(
        Signal(terms), before, {}
    )


def test_the_present_and_the_past_of_a_node_are_two_things() -> None:
    both = Signal.of("a").plus(Signal.of("a", delayed=True))
    assert both.terms == {Source("a"): 1.0, Source("a", True): 1.0}
