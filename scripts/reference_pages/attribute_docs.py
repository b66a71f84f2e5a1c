"""Reads the docstrings of a class's fields from its source, because Python does not keep them."""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


@cache
def attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings of fields by name, including the fields of base classes."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] in ("podium", "podium_server"):
            found |= _own_docs(base)
    return found


def _own_docs(kind: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for line, below in pairwise(tree.body):
        match line, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found
