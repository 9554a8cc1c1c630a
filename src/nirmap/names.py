"""Safe Python identifiers for the names of NIR nodes.

A node name is any text and comes from an untrusted file. Only the identifiers of this table may stand in generated
source or name a submodule; the names themselves stay data.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

# Longest identifier, and the longest part of it that is taken from a name that has to be changed: what is left over
# holds a number.
MAX_LENGTH = 48
_STEM_LENGTH = 40

# Keywords and built-ins of Python 3.10 to 3.14, written out: were they asked of the running interpreter, the same graph
# would have other identifiers, and so other keys in its state dict, under another version or in a notebook.
_PYTHON = """
    False None True and as assert async await break class continue def del elif else except finally for from global if
    import in is lambda nonlocal not or pass raise return try while with yield
    case match type

    ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
    BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
    ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception ExceptionGroup
    FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning
    IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
    ModuleNotFoundError NameError NotADirectoryError NotImplemented NotImplementedError OSError OverflowError
    PendingDeprecationWarning PermissionError ProcessLookupError PythonFinalizationError RecursionError ReferenceError
    ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError
    SystemExit TabError TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError
    UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning WindowsError ZeroDivisionError

    abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright
    credits delattr dict dir divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash
    help hex id input int isinstance issubclass iter len license list locals map max memoryview min next object oct open
    ord pow print property quit range repr reversed round set setattr slice sorted staticmethod str sum super tuple type
    vars zip
"""

# Attributes of torch.nn.Module and torch.fx.GraphModule, and the names that the source of a GraphModule relies on.
_TORCH = """
    T_destination add_module add_submodule apply bfloat16 buffers call_super_init children code compile cpu cuda
    delete_all_unused_submodules delete_submodule double dump_patches eval extra_repr float forward get_buffer
    get_extra_state get_parameter get_submodule graph half ipu load_state_dict meta modules mtia named_buffers
    named_children named_modules named_parameters parameters print_readable recompile register_backward_hook
    register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    set_extra_state set_submodule shape_env share_memory state_dict to to_empty to_folder train training type xpu
    zero_grad

    NoneType device fx fx_pytree inf math nan operator pytree self torch
"""

RESERVED: frozenset[str] = frozenset((_PYTHON + _TORCH).split())
"""Words that are never an identifier of a node."""

_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9]+")


def safe_identifiers(names: Iterable[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """One identifier for each name, no two alike.

    An identifier matches ``[A-Za-z][A-Za-z0-9_]*`` and has at most 48 characters. A name that is one already stays as
    it is. Of any other name, what is not an ASCII letter or digit becomes ``_`` (``lif1.lif`` is ``lif1_lif``), an
    accent is left out, and ``node_`` stands in front where a letter is missing or the word is reserved (``node_0``,
    ``node_if``). Names that become alike are numbered in sorted order. The table depends on the set of names alone.
    Cost grows linearly with their number, but for the sorting.

    Args:
        names: any text, of any length.
        reserved: further words that no identifier may be, besides :data:`RESERVED`.

    Returns:
        The identifiers by name, in sorted order of the names.
    """
    forbidden = RESERVED.union(reserved)
    ordered = sorted(set(names))
    kept = {name for name in ordered if _is_safe(name, forbidden)}
    taken = set(kept)
    numbers: dict[str, int] = {}
    table: dict[str, str] = {}
    for name in ordered:
        table[name] = name if name in kept else _numbered(_stem(name), forbidden, taken, numbers)
    return table


def _is_safe(name: str, forbidden: Collection[str]) -> bool:
    return len(name) <= MAX_LENGTH and _SAFE.fullmatch(name) is not None and name not in forbidden


def _stem(name: str) -> str:
    """The readable part of a name: letters, digits and single underscores, with a letter in front."""
    # Longer than the stem, since many characters may become one underscore; never the whole of an endless name.
    start = unicodedata.normalize("NFKD", name[: 4 * _STEM_LENGTH])
    plain = "".join(character for character in start if not unicodedata.combining(character))
    stem = _UNSAFE_CHARACTERS.sub("_", plain).strip("_")[:_STEM_LENGTH].rstrip("_")
    return stem or "node"


def _numbered(stem: str, forbidden: Collection[str], taken: set[str], numbers: dict[str, int]) -> str:
    """The stem, with ``node_`` in front where it is needed and the next free number behind where it is taken.

    ``numbers`` holds the last number tried for each stem, so that no number is tried twice.
    """
    if stem in forbidden or not stem[0].isalpha():
        stem = f"node_{stem}"[:_STEM_LENGTH].rstrip("_")
    candidate = stem
    while candidate in taken or candidate in forbidden:
        numbers[stem] = numbers.get(stem, 0) + 1
        candidate = f"{stem}_{numbers[stem]}"
    taken.add(candidate)
    return candidate
