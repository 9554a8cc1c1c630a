"""If these fail, two declarations that do not go together are both taken, and one of them is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from declaring import copied_in_part, edited, problems_of

SNNTORCH, NORSE, NIR = "frameworks/snntorch.yaml", "frameworks/norse.yaml", "nir.yaml"
# Slips that leave every name known: where, what was there, what is there now, what has to be said.
SLIPS = {
    "node": (SNNTORCH, "\n  CubaLI:\n", "\n  CubaLF:\n", "node 'CubaLF'", "CubaLIF"),
    "not mapped": (SNNTORCH, "  Delay: snnTorch", "  Dealy: snnTorch", "node 'Dealy'", "Delay"),
    "mapped and not": (SNNTORCH, "  Delay: snnTorch", "  IF: snnTorch", "also mapped", "one of the two"),
    "not mapped, but included": (
        SNNTORCH,
        "  Delay: snnTorch",
        "  Conv1d: snnTorch",
        "also mapped",
        "one of the two",
    ),
    "class elsewhere": (
        NORSE,
        "module: norse.torch.LICell",
        "module: torch.nn.LSTM",
        "'torch.nn.LSTM'",
        "norse.torch",
    ),
    "record elsewhere": (
        NORSE,
        "call: norse.torch.LIParameters",
        "call: os.LIParameters",
        "'os.LIParameters'",
        "norse.torch",
    ),
    "state record elsewhere": (
        NORSE,
        "        record: norse.torch.LIState",
        "        record: os.LIState",
        "'os.LIState'",
        "norse.torch",
    ),
    "bypassed elsewhere": (
        "shared/torch_nn.yaml",
        "module: torch.nn.Identity",
        "module: os.Identity",
        "'os.Identity'",
        "package.imports: torch",
    ),
    "no record": (NORSE, "        record: norse.torch.LIState\n", "", "without a record", "'record'"),
    "free variable": (
        NORSE,
        "{gain: r}",
        "{grain: r}",
        "free variable 'grain'",
        "gain, offset, shift, scale",
    ),
    "state variable": (
        SNNTORCH,
        "variables: {v: mem}, hides: [mem, reset], output: mem, alone",
        "variables: {w: mem}, hides: [mem, reset], output: mem, alone",
        "no entry for v",
        "each of v",
    ),
    "output": (
        SNNTORCH,
        "hides: [mem, reset], output: mem, alone",
        "hides: [mem, reset], output: men, alone",
        "'men'",
        "did you mean 'mem'?",
    ),
    "read of nothing": (
        NORSE,
        "v_threshold: module.p.v_th\n        v_reset: module.p.v_reset\n      ignores",
        "v_threshold: module.p.v_thr\n        v_reset: module.p.v_reset\n      ignores",
        "module.p.v_thr, which nothing sets",
        "did you mean 'p.v_th'?",
    ),
    "condition on nothing": (
        NORSE,
        "that: name_of(module.p.reset_method)",
        "that: name_of(module.p.zero)",
        "module.p.zero, which nothing sets",
        "declare under holds",
    ),
    "equation": (
        NIR,
        "dynamics:\n      v: r * input\n    output",
        "dynamics:\n      w: r * input\n    output",
        "equation for 'w'",
        "a state variable",
    ),
    "row twice": (
        NORSE,
        "# Recurrent cells",
        "  LI: []\n# Recurrent cells",
        "the key 'LI' again",
        "each key once",
    ),
    "function twice": (
        "functions.yaml",
        "operator.iadd",
        "operator.add",
        "the function 'operator.add' again",
        "each one once",
    ),
    "method twice": (
        "functions.yaml",
        "method: add_,",
        "method: add,",
        "the method 'add' again",
        "each one once",
    ),
    "default": (
        "functions.yaml",
        "defaults: {dim: 0}",
        "defaults: {dimension: 0}",
        "'dimension'",
        "one of its parameters",
    ),
    "module": (
        "functions.yaml",
        "  - {method: contiguous, means: bypass}",
        "  - {method: contiguous, means: module}",
        "means: module without a module",
        "a module for means: module",
    ),
    "module for another meaning": (
        "functions.yaml",
        "  - {method: contiguous, means: bypass}",
        "  - {method: contiguous, means: bypass, module: torch.nn.Identity}",
        "means: bypass with a module",
        "a module for means: module",
    ),
    "attribute of the module": (
        "functions.yaml",
        "attributes: {stride: kernel_size if stride is None else stride}",
        "attributes: {stride: kernel if stride is None else stride}",
        "'kernel'",
        "kernel_size",
    ),
    "attribute that is read": (
        "functions.yaml",
        "attributes: {padding_mode: \"'zeros'\"}\n  - function: torch.nn.functional.conv2d",
        "attributes: {mode: \"'zeros'\"}\n  - function: torch.nn.functional.conv2d",
        "no attribute 'padding_mode', which the mappings read of torch.nn.Conv1d",
        "an entry under attributes",
    ),
    "scale of a folded module": (
        "shared/torch_nn.yaml",
        "sqrt(module.running_var + module.eps)\n    shift",
        "sqrt(modul.running_var + module.eps)\n    shift",
        "'modul'",
        "did you mean 'module'?",
    ),
    "name": (NORSE, "framework: norse\n", "framework: nurse\n", "'nurse'", "'norse'"),
    "include": (
        NORSE,
        "includes: [torch_nn]",
        "includes: [torch_n]",
        "'torch_n'",
        "did you mean 'torch_nn'?",
    ),
    "include twice": (
        NORSE,
        "includes: [torch_nn]",
        "includes: [torch_nn, torch_nn]",
        "'torch_nn' again",
        "each file once",
    ),
    "no time step": (NORSE, "time_step: 1.0e-3\n", "", "no time_step", "shared/"),
    "time step of a shared file": (
        "shared/torch_nn.yaml",
        "nodes:\n",
        "time_step: 1\nnodes:\n",
        "a time step",
        "none in a shared file",
    ),
    "include of a shared file": (
        "shared/torch_nn.yaml",
        "nodes:\n",
        "includes: [torch_nn]\nnodes:\n",
        "includes",
        "none in a shared file",
    ),
}


@pytest.mark.parametrize(("file", "old", "new", "found", "expected"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_told_where_it_stands(
    tmp_path: Path, file: str, old: str, new: str, found: str, expected: str
) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    edited(folder / file, old, new)
    told = [problem for problem in problems_of(folder) if found in problem.found and expected in str(problem)]
    assert told != []
    assert {problem.file for problem in told} == {f"mappings/{file}"}
    assert all(problem.line >= 1 and problem.column >= 1 for problem in told)


BUILT = "the module is built with 'threshold', and nothing reads it"


def test_an_argument_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    """A module with another value would be written as the same node."""
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    path = folder / SNNTORCH
    text = path.read_text(encoding="utf-8")
    start = text.index("  LIF:\n")
    here = text[start:].replace("v_threshold: module.threshold", "v_threshold: ones_like(module.beta)", 1)
    here = here.replace("v_reset: zeros_like(module.threshold)", "v_reset: zeros_like(module.beta)", 1)
    here = here.replace(
        "        - {that: module.threshold > 0, because: with a threshold",
        "        - {that: module.beta < 1, because: with a threshold",
        1,
    )
    path.write_text(text[:start] + here, encoding="utf-8")
    (problem,) = [problem for problem in problems_of(folder) if problem.found == BUILT]
    assert problem.path == "nodes.LIF[0].build.threshold"
    assert "ignores" in problem.expected


def test_what_a_module_holds_and_no_condition_pins_is_refused(tmp_path: Path) -> None:
    """Without the condition, a neuron with lateral inhibition would be written as one that has none."""
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    path = folder / SNNTORCH
    text = path.read_text(encoding="utf-8")
    condition = "        - {that: not module.inhibition, because: NIR has no lateral inhibition}\n"
    rows = text.count(condition)
    assert rows > 5
    path.write_text(text.replace(condition, ""), encoding="utf-8")
    problems = problems_of(folder)
    assert len(problems) == rows
    assert {problem.found for problem in problems} == {"the module holds 'inhibition', and nothing reads it"}


def test_two_rows_with_one_class_are_refused(tmp_path: Path) -> None:
    """They would be two functions of one name, of which only the second is ever called."""
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    path = folder / "frameworks/torch.yaml"
    row = (
        "    - module: nirmap.reference.Scale\n"
        "      build: {scale: tensor(scale)}\n"
        "      read: {scale: module.scale}\n"
    )
    line, _ = edited(path, row, row + row)
    (problem,) = problems_of(folder)
    assert (problem.line, problem.path) == (line + 3, "nodes.Scale[1].module")


@pytest.mark.parametrize("name", ["catalogue", "rows", "functions", "neurons", "lambda", "np"])
def test_a_framework_is_not_called_like_another_generated_module(tmp_path: Path, name: str) -> None:
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    edited(folder / "frameworks/norse.yaml", "framework: norse\n", f"framework: {name}\n")
    (folder / "frameworks/norse.yaml").rename(folder / f"frameworks/{name}.yaml")
    (problem,) = problems_of(folder)
    assert (problem.path, problem.found) == ("framework", repr(name))


def test_two_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    """A generated module imports classes by their names: one would stand for the other."""
    folder = copied_in_part(tmp_path, "norse", "snntorch")
    line, _ = edited(
        folder / NORSE,
        "  record: norse.torch.LIState\n        v",
        "  record: norse.torch.functional.LICell\n        v",
    )
    (problem,) = problems_of(folder)
    assert "'norse.torch.functional.LICell' beside 'norse.torch.LICell'" in problem.found
    assert problem.line == line
