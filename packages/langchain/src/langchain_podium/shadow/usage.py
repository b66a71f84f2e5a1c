"""Count calls, tokens and cost of one run of a Runnable with a callback handler.

A conductor inside the run reports its totals in its last event, for all kinds of workers; reports of models
below it are then not counted again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from langchain_podium.messages import read_usage
from podium.types.outcome import total_cost
from podium.usage import Usage
from podium.workers import Price
from podium_shadow import Spent


@dataclass(slots=True)
class _Call:
    """One call of a model."""

    names: list[str] = field(default_factory=list)
    """The model's names: the provider's, then LangChain's."""
    usage: Usage | None = None


@dataclass(slots=True)
class _Conducted:
    """One run of a conductor."""

    run_id: str
    ended: Mapping[str, Any] | None = None
    """The last event of the run. The cost of a run that was cut off is unknown."""


class UsageHandler(BaseCallbackHandler):
    """Counts the calls, tokens and cost of one run of a Runnable."""

    run_inline = True
    ignore_agent = True
    ignore_retry = True

    def __init__(self, prices: Mapping[str, Price] | None = None) -> None:
        self._prices = dict(prices or {})
        self._parents: dict[UUID, UUID | None] = {}
        self._calls: dict[UUID, _Call] = {}
        self._conducted: dict[UUID, _Conducted] = {}
        self._first: UUID | None = None
        self.returned: Any = None
        """The return value of the outermost chain or graph; `None` until it ends successfully."""

    def spent(self) -> Spent:
        """Return the calls, tokens and cost of the run so far."""
        calls = [call for run, call in dict(self._calls).items() if not self._is_conducted(run)]
        conducted = [each for run, each in dict(self._conducted).items() if not self._is_below(run)]
        if not calls and not conducted:
            return Spent()
        run_id = conducted[0].run_id if len(conducted) == 1 else None
        ends = [each.ended for each in conducted if each.ended is not None]
        if len(ends) < len(conducted):
            return Spent(run_id=run_id)
        usages = [*(call.usage for call in calls), *(Usage(**end["usage"]) for end in ends)]
        known = [usage for usage in usages if usage is not None]
        return Spent(
            calls=len(calls) + sum(end["calls"] for end in ends),
            usage=Usage.total(known) if len(known) == len(usages) else None,
            cost=total_cost([*map(self._cost, calls), *(end["cost"] for end in ends)]),
            run_id=run_id,
        )

    def on_chain_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        """Record the parent of a run."""
        self._parents[run_id] = parent_run_id
        self._first = self._first or run_id

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the return value of the outermost run."""
        if run_id == self._first:
            self.returned = outputs

    def on_tool_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        """Record the parent of a run."""
        self._parents[run_id] = parent_run_id

    def on_chat_model_start(self, *_: Any, run_id: UUID, **told: Any) -> None:
        """Record a call."""
        self._begin(run_id, told)

    def on_llm_start(self, *_: Any, run_id: UUID, **told: Any) -> None:
        """Record a call."""
        self._begin(run_id, told)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Record the model and usage that a call reports."""
        call = self._calls.setdefault(run_id, _Call())
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            message = generation.message
            call.usage = read_usage(message.usage_metadata)
            names = [message.response_metadata.get(key) for key in ("model_name", "model")]
            call.names[:0] = [name for name in names if isinstance(name, str)]

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        """Take note of an event of a conductor's run; nested runs are counted in its steps."""
        if not name.startswith("podium_") or not isinstance(data, dict) or "run_id" not in data:
            return
        conducted = self._conducted.setdefault(run_id, _Conducted(data["run_id"]))
        if data["run_id"] == conducted.run_id and data["type"] == "run_ended":
            conducted.ended = data

    def _begin(self, run_id: UUID, told: Mapping[str, Any]) -> None:
        self._parents[run_id] = told.get("parent_run_id")
        name = (told.get("metadata") or {}).get("ls_model_name")
        self._calls[run_id] = _Call([name] if isinstance(name, str) else [])

    def _cost(self, call: _Call) -> float | None:
        price = next((self._prices[name] for name in call.names if name in self._prices), None)
        return None if price is None or call.usage is None else price.cost(call.usage)

    def _is_conducted(self, run: UUID) -> bool:
        return run in self._conducted or self._is_below(run)

    def _is_below(self, run: UUID) -> bool:
        return any(above in self._conducted for above in self._above(run))

    def _above(self, run: UUID) -> Iterator[UUID]:
        above = self._parents.get(run)
        while above is not None:
            yield above
            above = self._parents.get(above)
