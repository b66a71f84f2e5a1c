"""The conductor of a face, from its parts, and one call of it, whose steps LlamaIndex is told of."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from hashlib import sha256
from typing import Any, NamedTuple

from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.core.settings import Settings

from llama_index_podium.cards import card_of
from llama_index_podium.sources import behind, merge
from llama_index_podium.tracing import Steps
from llama_index_podium.workers.llm import LLMWorker
from llama_index_podium.workers.wrap import as_worker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import CardMaker, ChatAnswer, ChatCall, result_metadata
from podium.hosts.results import plan_metadata
from podium.hosts.workers import CONDUCTOR_OPTIONS, make_conductor
from podium.planners import ChatPlanner, Planner
from podium.policy import Policy
from podium.run import Listener, RunOptions
from podium.secrets import scrub_data
from podium.types import AnswerDelta, Event, Message, Outcome, Plan, PlannedBy, PlanReady, Result, StepEnded
from podium.usage import Usage
from podium.workers import Price, Worker


def as_planner(
    llm: LLM | Worker, *, name: str | None = None, price: Price | None = None, **options: Any
) -> ChatPlanner:
    """Return a planner that asks an LLM for the plan.

    Args:
        llm: the model.
        name: the name in events and results; `None` uses the model's own.
        price: the price of its tokens; `None` looks it up, as `as_worker` does.
        options: further options of `podium.ChatPlanner`.

    Raises:
        ConfigError: `llm` is not an LLM, or already has a card with its name and price.
    """
    maker = CardMaker({"name": name, "price": price})
    worker = maker.podium_worker(llm)
    if worker is None:
        if not isinstance(llm, LLM):
            raise ConfigError(
                f"{llm!r:.80} is neither an LLM nor a planner: give one of them, or as_planner(...)"
            )
        worker = LLMWorker(llm, card=card_of(llm, maker))
    return ChatPlanner(worker, **options)


class Parts(NamedTuple):
    """The arguments of a face that say what its conductor is, and what it is asked."""

    conductor: Any
    planner: LLM | Planner | None
    workers: Sequence[Any]
    labels: Collection[str]
    policy: Policy | None
    run_id: str | None


def conductor_of(
    face: str, parts: Parts, options: Mapping[str, Any], takes: Sequence[str], more: Sequence[Worker] = ()
) -> Conductor:
    """Return the conductor of a face: the given one, or a new one from its parts.

    Args:
        face: the name of the face's class, for errors.
        parts: the arguments of the face.
        options: further options of `Conductor`, for a new one.
        takes: the names of the other options of the face, for errors.
        more: workers that follow the given ones in a new conductor.

    Raises:
        TypeError: an option is unknown.
        ConfigError: there is no planner, or a conductor together with its parts; or see `Conductor`.
    """
    takes = (*Parts._fields[1:], *takes)
    if unknown := sorted(options.keys() - set(CONDUCTOR_OPTIONS)):
        told = ", ".join(dict.fromkeys((*takes, *CONDUCTOR_OPTIONS)))
        raise TypeError(f"{face} does not accept {', '.join(unknown)}: its options are {told}")
    conductor, planner = parts.conductor, parts.planner
    if conductor is None:
        planner = getattr(Settings, "_llm", None) if planner is None else planner
        if planner is None:
            raise ConfigError(
                f"{face} has no planner: give planner=... (an LLM, or a planner of Podium) and workers=..., "
                "or a Conductor; or set Settings.llm"
            )
        pool = [*map(as_worker, parts.workers), *more]
        conductor = make_conductor(planner, pool, options, as_planner=as_planner, face=face)
    elif not isinstance(conductor, Conductor):
        told = f"{face} needs a conductor, not {conductor!r:.80}"
        raise ConfigError(f"{told}: give Conductor(planner, workers), or planner=... and workers=...")
    elif own := [name for name in ("planner", "workers") if getattr(parts, name)] + sorted(options):
        raise ConfigError(f"{face} has a conductor: give it {', '.join(own)} where it is made")
    bound = conductor.bind(labels=parts.labels, policy=parts.policy)
    if parts.run_id is not None:
        check_run_id(parts.run_id, bound)
    return bound


def check_run_id(run_id: str, conductor: Conductor) -> None:
    """Raise `ConfigError` if there is no journal in which the id names a run."""
    if conductor.journal is None:
        raise ConfigError(f"run_id={run_id!r} names runs in a journal: give the conductor a journal")


def run_id_of(prefix: str | None, *texts: str) -> RunOptions:
    """Return the options that name a run: by its prefix and a hash of the question; empty without one."""
    if prefix is None:
        return {}
    asked = sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    return {"run_id": f"{prefix}:{asked[:16]}"}


def metadata_of(result: Result) -> dict[str, Any]:
    """Return a run as plain JSON, with the output of each step and LlamaIndex's names of token counts."""
    return result_metadata(result, usage=counts_of, outputs=True)


def counts_of(usage: Usage) -> dict[str, Any]:
    """Return usage under the names that OpenAI's clients and LlamaIndex's counters use."""
    return {
        "prompt_tokens": usage.total_input_tokens,
        "completion_tokens": usage.total_output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "estimated": usage.estimated,
    }


class ConductedCall:
    """One call of a face. Create one object per call.

    Args:
        conductor: the conductor that plans and runs the call.
        asked: the question, or a conversation.
        run: options of the run, such as its id.
        on_event: called with each event, besides LlamaIndex's instrumentation.
        chat: further arguments of `ChatCall`.

    Raises:
        QueryError: there is no question.
    """

    def __init__(
        self,
        conductor: Conductor,
        asked: str | Sequence[Message],
        *,
        run: RunOptions | None = None,
        on_event: Listener | None = None,
        **chat: Any,
    ) -> None:
        self._steps = Steps()
        self._also = on_event
        self._call = ChatCall(
            conductor,
            (Message("user", asked),) if isinstance(asked, str) else asked,
            options={**(run or RunOptions()), "middleware": self._steps.middleware},
            on_event=self._tell,
            **chat,
        )
        self._plans: dict[int, Plan] = {}
        self._ended: dict[int, dict[int, Outcome]] = {}
        self.nodes: list[NodeWithScore] = []
        """The nodes that the answer depends on.

        Until the end, the list has only the nodes that were known when the first chunk was sent.
        """
        self.metadata: dict[str, Any] = {}
        """The run as metadata. Until the end, it has only the values that were known when the plan was ready.
        """
        self.rest = self._call.rest

    @property
    def text(self) -> str:
        """The text streamed so far."""
        return self._call.text

    async def run(self) -> ChatAnswer:
        """Run the call and return its whole answer. Raises what `events` and `answer` raise."""
        async with aclosing(self.events(stream=False)) as events:
            async for _ in events:
                pass
        return self.answer()

    async def events(self, *, stream: bool) -> AsyncGenerator[str, None]:
        """Run the call; yield the new text of the answer at each event, empty if there is none.

        The run begins at the first item, with the caller's context variables. Leaving the iteration cancels
        the run. Raises what `Conductor.run` raises.

        Args:
            stream: whether the answer is streamed.
        """
        run_id = ""
        async with aclosing(self._call.events(stream=stream)) as events:
            async for event, text in events:
                run_id = run_id or event.run_id  # the first event belongs to the outer run
                if event.run_id == run_id:
                    self._note(event, text)
                yield text

    def answer(self) -> ChatAnswer:
        """Return the answer after `events` has ended. Raises what `ChatCall.answer` raises."""
        answer = self._call.answer()
        self.nodes[:] = merge(answer.result, self._steps.found)
        self.metadata |= metadata_of(answer.result)
        return answer

    def _tell(self, event: Event) -> None:
        self._steps.tell(event)
        if self._also is not None:
            self._also(event)

    def _note(self, event: Event, text: str) -> None:
        """Record the known facts about the answer before the run has ended."""
        if isinstance(event, PlanReady):
            self._plans[event.round] = event.plan
            planner = PlannedBy(event.planner, event.why, event.is_fallback)
            known = {"run_id": event.run_id, "planner": asdict(planner), "plan": plan_metadata(event.plan)}
            self.metadata |= scrub_data(known)
        elif isinstance(event, StepEnded) and event.outcome.status == "ok":
            self._ended.setdefault(event.round, {})[event.step] = event.outcome
        elif isinstance(event, AnswerDelta) and text and text == self._call.text:
            self._note_nodes(event)

    def _note_nodes(self, begun: AnswerDelta) -> None:
        """Record the nodes found before the answer began, also by the step that writes the answer."""
        number, step, attempt = begun.round, begun.step, begun.attempt
        if number is None or step is None or attempt is None or number not in self._plans:
            return
        writing = Outcome(round=number, step=step, worker="", status="ok", attempts=attempt)
        found = self._steps.found.get(begun.run_id, {})
        ended = {step: writing, **self._ended.get(number, {})}
        self.nodes[:] = behind(self._plans[number], ended, step, found)
