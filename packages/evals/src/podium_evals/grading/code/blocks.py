"""Finds the program in a model's text, which may also have prose, outputs and examples."""

import ast
import re
from textwrap import dedent

from podium_evals.grading.answers import tagged_answer

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<tag>[\w+#.-]*)[^\n`]*\n(?P<code>.*?)"
    r"(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON = {"python", "py", "python3", "py3"}
_DEFINES = re.compile(r"^\s*(?:async\s+def|def|class|for|while|if|with)\b|\binput\(|\bstdin\b", re.MULTILINE)


def code_in(text: str) -> str:
    """Return the Python program in a text; empty if there is none.

    The program is the last fenced block that is Python and defines something or reads input. A later block is
    often an example of its use. Blocks without a language count only if no block is marked as Python. A text
    without fences is a program if Python can parse it. Text before `</think>` is left out. A block without an
    end ends with the text.
    """
    text = tagged_answer(text)
    blocks = [(match["tag"].lower(), dedent(match["code"]).strip("\n")) for match in _FENCE.finditer(text)]
    if not blocks:
        return text if _parses(text) else ""
    marked = [code for tag, code in blocks if tag in _PYTHON] or [code for tag, code in blocks if not tag]
    programs = [code for code in marked if _DEFINES.search(code) and _parses(code)]
    return (programs or marked or [""])[-1]


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(code.strip())
