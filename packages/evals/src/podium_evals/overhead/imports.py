"""What importing `langchain_podium` adds to importing what it needs.

What it needs is `podium` with its shadow, and of LangChain and LangGraph the classes that
its own are made of, each named so that it is loaded, since these packages are lazy. Against
that stands the same with every name of `langchain_podium`, which is lazy too: who uses one
name pays for less. Each import has a process of its own; both kinds take turns, and what is
compared is CPU time, which a busy machine stretches less than the clock's.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import product

from podium.errors import PodiumError

NEEDED = """
import podium, podium_shadow
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers.openai_tools import PydanticToolsParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableSerializable
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import StateGraph
from langgraph.types import interrupt
"""
ALL = f"{NEEDED}\nfrom langchain_podium import *"
_TAKEN = "import time; print(time.process_time())"
_SECONDS = 60.0
"""How long one import may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """CPU time of the imports, interpreter included, in seconds, one for each round."""

    needed_s: tuple[float, ...]
    """Of what `langchain_podium` needs."""
    all_s: tuple[float, ...]
    """Of that and every name of `langchain_podium`."""

    @property
    def added_percent(self) -> float:
        """What is added, of the least of each: whatever else a machine does only adds to them."""
        return 100 * (min(self.all_s) / min(self.needed_s) - 1)


def measure_imports(rounds: int) -> Imports:
    """Import in processes of their own, `rounds` times each, in turns after one that is not counted.

    Raises:
        PodiumError: something cannot be imported.
    """
    _import(ALL)  # writes what Python compiles
    taken: dict[str, list[float]] = {NEEDED: [], ALL: []}
    for _, lines in product(range(rounds), taken):
        taken[lines].append(_import(lines))
    return Imports(needed_s=tuple(taken[NEEDED]), all_s=tuple(taken[ALL]))


def _import(lines: str) -> float:
    command = [sys.executable, "-c", f"{lines}\n{_TAKEN}"]
    done = subprocess.run(  # noqa: S603  (our own interpreter, our own lines)
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=os.environ
    )
    if done.returncode:
        raise PodiumError(f"langchain_podium cannot be imported: {done.stderr.strip()[-400:]}")
    return float(done.stdout)
