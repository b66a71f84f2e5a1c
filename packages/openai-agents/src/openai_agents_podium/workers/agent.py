"""A worker that is an agent of the SDK."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from agents import Agent, FunctionTool, Model, RunConfig, Runner, RunResult, RunResultStreaming
from agents.run import DEFAULT_MAX_TURNS

from openai_agents_podium.messages import read_usage, to_items
from openai_agents_podium.tracing import tracing_of_run
from openai_agents_podium.workers.acts import may_act
from openai_agents_podium.workers.errors import read_agents_error
from openai_agents_podium.workers.finish import WatchedProvider
from openai_agents_podium.workers.nested import OuterStep, working_for
from openai_agents_podium.workers.settings import SchemaOutput, model_settings
from openai_agents_podium.workers.tool import raising
from openai_agents_podium.workers.watch import RunWatch
from podium.aio.sync import events_of
from podium.budget import Spend
from podium.conductor import Conductor
from podium.errors import ConfigError, WorkerError, WorkerFailed
from podium.hosts import read_completion, text_of, worker_errors
from podium.hosts.results import spent_completion
from podium.secrets import scrubbing
from podium.types import Completion
from podium.types.messages import estimate_usage
from podium.usage import Usage
from podium.workers import Card, Request, Worker

MAX_TURNS: Final = DEFAULT_MAX_TURNS
_Ended = tuple[RunResult | RunResultStreaming, OuterStep]
"""The runner's result, and the answers of a conductor behind the agent."""


@dataclass(frozen=True, slots=True)
class AgentRunOptions:
    """The run options of an agent, for all steps of a worker."""

    max_turns: int | None = MAX_TURNS
    """Maximum number of model calls per step; `None` sets no limit."""
    run_config: RunConfig | None = None
    """`None` uses the SDK's default."""
    context: Any = None
    """The context object for tools, hooks and guardrails."""


class AgentWorker(Worker):
    """Runs an agent with the SDK's runner, without a session.

    The answer is streamed if the first text of the agent's model is always its answer. This is the case if
    the agent has no tools, no output type and no output guardrails.
    """

    def __init__(self, agent: Agent[Any], *, card: Card, options: AgentRunOptions | None = None) -> None:
        _check(agent)
        self.agent = agent
        self.card = card
        self._options = options or AgentRunOptions()
        self._config = self._options.run_config or RunConfig()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """A JSON schema, unless the agent has an output type of its own."""
        return frozenset({"json"} if self.agent.output_type in (None, str) else ())

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the agent with the step's input, and return its final output."""
        watch, sent = RunWatch(), False
        done: Completion | None = None
        with scrubbing():
            running: AsyncGenerator[str | _Ended, None] = events_of(
                lambda emit: self._run(request, watch, emit)
            )
            async with aclosing(running) as pieces:
                while done is None:
                    try:
                        with worker_errors(self.card.name, reader=read_agents_error):
                            piece = await anext(pieces)
                            if not isinstance(piece, str):
                                done = self._completion(request, watch, *piece)
                    except WorkerError as error:
                        error.maybe_paid = error.maybe_paid and watch.asked_a_model
                        if error.usage is None:
                            error.usage = self._spent(request, watch, error)
                        error.maybe_paid = error.maybe_paid or watch.has_answered
                        raise
                    if isinstance(piece, str):
                        sent = True
                        yield piece
        if request.stream and not sent:
            yield done.text
        yield done

    def _spent(self, request: Request, watch: RunWatch, error: WorkerError) -> Usage | None:
        """Return the tokens of a failed run; `None` if they are unknown.

        If a model call failed and may be paid for, its tokens are estimated.
        """
        spent = watch.finished_usage()
        if spent is None or not (watch.is_asking and error.maybe_paid):
            return spent
        return spent + estimate_usage(request.messages, "")

    def _model(self) -> object:
        """Return the conductor model that needs to know the step; `None` for other models."""
        return None

    async def _run(self, request: Request, watch: RunWatch, emit: Callable[[str | _Ended], None]) -> None:
        _check(self.agent)
        agent, items = self._prepared(request, watch), to_items(request.messages)
        told: dict[str, Any] = {
            "context": self._options.context,
            "max_turns": self._options.max_turns,
            "hooks": watch,
            "run_config": self._run_config(request, watch),
        }
        with working_for(self._model(), request) as outer:
            if not (request.stream and self._streams(agent)):
                emit((await Runner.run(agent, items, **told), outer))
                return
            result = Runner.run_streamed(agent, items, **told)
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    emit(event.data.delta)
            emit((result, outer))

    def _run_config(self, request: Request, watch: RunWatch) -> RunConfig:
        """Return the run config, with watched models and tracing that is not broader than the outer run's."""
        config, tracing = self._config, tracing_of_run()
        model = config.model
        return replace(
            config,
            model=watch.finishes.watched(model) if isinstance(model, Model) else model,
            model_provider=WatchedProvider(config.model_provider, watch.finishes),
            model_settings=model_settings(request.sampling, config.model_settings),
            tracing_disabled=config.tracing_disabled or tracing.is_disabled(),
            trace_include_sensitive_data=config.trace_include_sensitive_data and tracing.include_data(),
        )

    def _prepared(self, request: Request, watch: RunWatch) -> Agent[Any]:
        """Return the agent to run: its model is watched, and tools whose output is the answer raise."""
        agent, changed = self.agent, dict[str, Any]()
        if request.sampling.constraint is not None:
            changed["output_type"] = SchemaOutput(request.sampling.constraint)
        if isinstance(agent.model, Model):
            changed["model"] = watch.finishes.watched(agent.model)
        if agent.tool_use_behavior != "run_llm_again":
            changed["tools"] = [
                raising(tool) if isinstance(tool, FunctionTool) else tool for tool in agent.tools
            ]
        return agent.clone(**changed)

    def _streams(self, agent: Agent[Any]) -> bool:
        """Return whether the first text of the agent's model is the answer."""
        works = agent.tools or agent.mcp_servers
        checked = agent.output_guardrails or self._config.output_guardrails
        return not (works or checked) and agent.output_type in (None, str)

    def _completion(
        self,
        request: Request,
        watch: RunWatch,
        result: RunResult | RunResultStreaming,
        outer: OuterStep,
    ) -> Completion:
        used = read_usage(result.context_wrapper.usage)
        if result.interruptions:
            waits = f"worker {self.card.name!r} asks for approval of a tool, but a step cannot wait"
            raise WorkerFailed(f"{waits}: give it tools that need no approval", maybe_paid=True)
        finish = watch.finishes.latest
        done = read_completion(
            request.messages,
            text=text_of(result.final_output),
            finish_reason="stop" if finish in ("tool_calls", "function_call") else finish,
            usage=used,
        )
        if used == Usage():
            done = spent_completion(done.text, used, self.card)
        return replace(done, missing=outer.missing() or done.missing, cost=outer.cost(used))


class NestedAgentWorker(AgentWorker):
    """Runs an agent whose model is a conductor, within the limits of the outer run."""

    def __init__(
        self,
        agent: Agent[Any],
        model: object,
        conductor: Conductor,
        *,
        card: Card,
        options: AgentRunOptions | None = None,
    ) -> None:
        super().__init__(agent, card=card, options=options)
        self._behind = model
        self._conductor = conductor
        self.nests = not may_act(agent.clone(model=None))

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return the worst case of the conductor: `None` within a run, because it reserves its own calls."""
        return self._conductor.worst_case(request, answer_tokens)

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """Empty: a nested run does not pass a schema on."""
        return frozenset()

    def _spent(self, request: Request, watch: RunWatch, error: WorkerError) -> Usage | None:
        # The ledger has the tokens of the conductor's runs, including failed ones.
        return None if watch.is_asking else super()._spent(request, watch, error)

    def _model(self) -> object:
        return self._behind

    def _parts(self) -> tuple[AbstractAsyncContextManager[Any], ...]:
        return (self._conductor,)


def _check(agent: Agent[Any]) -> None:
    """Raise `ConfigError` for an agent with handoffs."""
    if agent.handoffs:
        names = ", ".join(
            str(getattr(each, "agent_name", getattr(each, "name", each))) for each in agent.handoffs
        )
        told = f"agent {agent.name!r} has handoffs to {names}, but the plan chooses the workers"
        raise ConfigError(f"{told}: make each of them a worker, or give them to the agent as tools")
