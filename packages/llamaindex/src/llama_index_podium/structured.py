"""Structured answers of an LLM that is a conductor.

LlamaIndex's programs request these answers and parse them. If an answer cannot be parsed, `RunFailed` with
the run's result is raised; no object is invented.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic

from llama_index.core.output_parsers import PydanticOutputParser
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.types import Model
from pydantic import BaseModel

from podium.errors import PodiumError, RunFailed
from podium.hosts.results import run_failed, tool_arguments
from podium.secrets import scrub
from podium.types import Part, Result

_ENDED: ContextVar[list[Result] | None] = ContextVar("podium_structured", default=None)
_MAX_QUOTE = 500


def note_result(result: Result) -> None:
    """Store the result of a run that answers a structured call; do nothing outside of such a call."""
    ended = _ENDED.get()
    if ended is not None:
        ended.append(result)


def is_structured() -> bool:
    """Return whether the current call is structured: its object cannot show that it is incomplete."""
    return _ENDED.get() is not None


class StructuredCall(Generic[Model]):
    """One structured call.

    Args:
        output_cls: the class of the parsed answer.
    """

    def __init__(self, output_cls: type[Model]) -> None:
        self._output_cls = output_cls
        self._ended: list[Result] = []

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Convert exceptions of LlamaIndex in the block to `RunFailed` if a run has ended in it.

        Raises:
            RunFailed: the answer could not be parsed.
        """
        token = _ENDED.set(self._ended)
        try:
            yield
        except PodiumError:
            raise
        except (ValueError, TypeError, KeyError) as error:  # KeyError: a call of another tool
            if not self._ended:
                raise
            raise self._unread(error) from error
        finally:
            _ENDED.reset(token)

    def answer(self) -> Model:
        """Return the parsed answer after the run has ended.

        The answer is parsed again here, because LlamaIndex completes cut answers in streams and in arguments
        of tools.

        Raises:
            RunFailed: the answer cannot be parsed.
        """
        result = self._ended[-1]
        try:
            if result.tool_calls:
                return self._read_call(result.tool_calls[0])
            parsed: Model = PydanticOutputParser(self._output_cls).parse(result.answer)
        except ValueError as error:
            raise self._unread(error) from error
        return parsed

    def _read_call(self, call: Part) -> Model:
        called, tool = call["function"]["name"], get_function_tool(self._output_cls).metadata
        if called not in (tool.name, tool.to_openai_tool(skip_length_check=True)["function"]["name"]):
            raise ValueError(f"the worker called {called!r}, which was not offered")
        return self._output_cls.model_validate(tool_arguments(call))

    def _unread(self, error: Exception) -> RunFailed:
        told = f"the answer cannot be read as {self._output_cls.__name__}"
        return run_failed(f"{told}: {scrub(str(error))[:_MAX_QUOTE]}", self._ended[-1])


def has_value(piece: BaseModel) -> bool:
    """Return whether a partial object has a value; LlamaIndex streams blank objects if it cannot parse."""
    return bool(piece.model_dump(exclude_none=True))
