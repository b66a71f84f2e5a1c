"""A conductor as a Runnable.

Like any other Runnable, it can be part of a chain, stream, run batches, be retried and be traced. The module
defines its return values and its exceptions. Conductors in graphs and as chat models are in `graph/` and
`chat_models/`.
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, BaseCallbackManager
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig, RunnableSerializable, ensure_config, patch_config
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, convert_runnable_to_tool
from pydantic import BaseModel, ConfigDict

from langchain_podium.callbacks import child_runs, hears, run_in_task, scrub_run, shown, tell, thread_of
from langchain_podium.cancellation import each, until_left
from langchain_podium.messages import ConductorInput, to_query
from podium.aio import iterate, run_sync
from podium.conductor import Conductor
from podium.hosts import ConductorFace, RecordedRun
from podium.hosts.chat import whole_answers
from podium.hosts.results import answered, lack_after, text_answer
from podium.policy import Policy
from podium.run import RunOptions, StreamedAnswer
from podium.types import AnswerDelta, Event, Result, RunEnded

if TYPE_CHECKING:
    from langchain_podium.graph.message_stream import MessageStream

Given = TypeVar("Given", bound=str | Result)


@ConductorFace.register
class ConductorRunnable(RunnableSerializable[ConductorInput, Given], Generic[Given]):
    """Runs a conductor.

    Each call also accepts the `labels` and the `policy` of its run; `bind` can set them in advance. The
    callbacks of the configuration get every call of a worker or planner as a child run. The callbacks also
    get the events of the run as custom events, `podium_plan_ready` and so on. If the conductor has a journal,
    the id of the run is the `run_id` of the configuration. In a task of LangGraph, it is else the same in all
    tries of the task; elsewhere, LangChain generates it. If a recorded run with this id is `ok`, a second
    call returns its result. If the recorded run is `failed` or `partial`, a second call resumes it, and its
    failed steps run again.

    Args:
        conductor: the conductor.
        output: the return value: the answer as text, or the whole `Result`. The text of an incomplete answer
            ends with the sentence `(Not complete: …)`.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.

    Raises:
        TypeError: a keyword argument is unknown, here or in a call.
        RunFailed: from each call: the run has no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, hide_input_in_errors=True)

    conductor: Conductor
    output: Literal["answer", "result"] = "answer"
    partial: Literal["return", "raise"] = "return"

    @overload
    def __init__(
        self: "ConductorRunnable[str]",
        conductor: Conductor,
        *,
        output: Literal["answer"] = "answer",
        partial: Literal["return", "raise"] = "return",
        name: str | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: "ConductorRunnable[Result]",
        conductor: Conductor,
        *,
        output: Literal["result"],
        partial: Literal["return", "raise"] = "return",
        name: str | None = None,
    ) -> None: ...

    def __init__(self, conductor: Conductor, **options: Any) -> None:
        _check_names("ConductorRunnable", options, ("output", "partial", "name"))
        super().__init__(**{"conductor": conductor, **options})

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name in traces: the Runnable's own name, or the name on the conductor's card."""
        return super().get_name(suffix, name=name or self.name or self.conductor.card.name)

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of the input: text, a conversation, or a dict of these."""
        return str | list[AnyMessage] | dict[str, Any]

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of the output, according to `output`."""
        return str if self.output == "answer" else Result

    async def ainvoke(
        self,
        input: ConductorInput,  # noqa: A002 - LangChain's name, as below
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Given:
        """Run the conductor, and return the whole answer."""
        ask = partial(self._ask, input, _has_run_id(config))
        return await self._acall_with_config(ask, shown(input), config, **kwargs)

    def invoke(
        self,
        input: ConductorInput,  # noqa: A002 - LangChain's name, as below
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Given:
        """Run like `ainvoke` from sync code, also inside a running event loop."""
        settled = ensure_config(config)
        return run_sync(lambda: until_left(settled, lambda: self.ainvoke(input, settled, **kwargs)))

    async def astream(
        self,
        input: ConductorInput,  # noqa: A002 - LangChain's name, as below
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Given, None]:
        """Run the conductor, and yield the answer in pieces, or the `Result` if `output` says so.

        Leaving the iteration cancels the run.
        """
        told, stream = _only(shown(input)), partial(self._stream, input, _has_run_id(config))
        pieces = self._atransform_stream_with_config(told, stream, config, **kwargs)
        async with aclosing(cast("AsyncGenerator[Given, None]", pieces)):
            async for piece in pieces:
                yield piece

    def stream(
        self,
        input: ConductorInput,  # noqa: A002 - LangChain's name, as below
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Given]:
        """Run like `astream` from sync code, also inside a running event loop."""
        return iterate(lambda: self.astream(input, config, **kwargs))

    async def abatch(self, inputs: list[ConductorInput], *args: Any, **kwargs: Any) -> list[Given]:
        """Run many inputs, at most `max_concurrency` at a time, with shared connections."""
        async with self.conductor:
            return await super().abatch(inputs, *args, **kwargs)

    def batch(self, inputs: list[ConductorInput], *args: Any, **kwargs: Any) -> list[Given]:
        """Run like `abatch` from sync code, also inside a running event loop."""
        return run_sync(lambda: self.abatch(inputs, *args, **kwargs))

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool that runs the conductor; its input is one text unless arguments are described."""
        asked = self if args_schema or arg_types else self.with_types(input_type=str)
        if description is None:
            description = self.conductor.card.description
        tool = convert_runnable_to_tool(
            asked, args_schema, name=name or self.get_name(), description=description, arg_types=arg_types
        )
        if not self.conductor.acts:
            tool.metadata = {"readOnlyHint": True}
        return tool

    async def _ask(
        self,
        asked: ConductorInput,
        has_run_id: bool,  # noqa: FBT001 - bound above, as below
        told: ConductorInput,
        run_manager: AsyncCallbackManagerForChainRun,
        **facts: Any,
    ) -> Given:
        """Run the conductor; `told` is the traced input."""
        del told
        stream = _answer_stream() is not None
        async with aclosing(self._events(asked, run_manager, has_run_id, stream=stream, **facts)) as events:
            async for event in events:
                last = event
        return self._given(_ended(last))

    async def _stream(
        self,
        asked: ConductorInput,
        has_run_id: bool,  # noqa: FBT001 - bound above, as below
        told: AsyncIterator[ConductorInput],
        run_manager: AsyncCallbackManagerForChainRun,
        **facts: Any,
    ) -> AsyncGenerator[Given, None]:
        """Run the conductor, and yield the chunks of the answer; `told` is the traced input."""
        del told
        own, streamed = "", StreamedAnswer()
        async with aclosing(self._events(asked, run_manager, has_run_id, stream=True, **facts)) as events:
            async for event in events:
                own, last = own or event.run_id, event
                if event.run_id != own or self.output != "answer":
                    continue
                if isinstance(event, AnswerDelta) and (text := streamed.add(event)):
                    yield cast("Given", text)
        result = _ended(last)
        given = self._given(result)
        if rest := given if isinstance(given, Result) else streamed.rest(result) + lack_after(result):
            yield cast("Given", rest)

    async def _events(
        self,
        asked: ConductorInput,
        run_manager: AsyncCallbackManagerForChainRun,
        has_run_id: bool,  # noqa: FBT001 - as above
        *,
        stream: bool,
        labels: Iterable[str] = (),
        policy: Policy | None = None,
        **others: Any,
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a run; each is first sent as a custom event."""
        _check_names("a call of ConductorRunnable", others, ("labels", "policy"))
        scrub_run(run_manager)
        conductor, query, middleware = self.conductor, to_query(asked), child_runs()
        heard, messages = hears(run_manager), _answer_stream()
        with run_in_task(conductor, query, run_manager.run_id, is_given=has_run_id) as run_id:
            options: RunOptions = {
                "run_id": run_id,
                "labels": labels,
                "policy": policy,
                "middleware": middleware if stream else whole_answers(middleware),
            }
            session, refresh = thread_of(ensure_config()), self.partial == "raise"
            run = RecordedRun(conductor, query, options, session=session, refresh=refresh)
            reading = run.events()
            if messages is not None:
                context, quiet = copy_context(), patch_config(ensure_config(), callbacks=messages[1])
                context.run(var_child_runnable_config.set, quiet)
                reading = messages[0].passing(each(reading, context))
            async with aclosing(reading) as events:
                async for event in events:
                    if heard:
                        await tell(run_manager, event)
                    yield event

    def _given(self, result: Result) -> Given:
        """Return the output of the Runnable."""
        if self.output == "result" and result.status == "waiting":
            return cast("Given", result)
        answered(result, partial=self.partial)
        return cast("Given", result if self.output == "result" else text_answer(result))


def _has_run_id(config: RunnableConfig | None) -> bool:
    return config is not None and config.get("run_id") is not None


def _check_names(told: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise `TypeError` for an unknown keyword argument."""
    if unknown := [name for name in given if name not in known]:
        raise TypeError(f"{told} does not accept {', '.join(unknown)}: it accepts {', '.join(known)}")


def _answer_stream() -> "tuple[MessageStream, BaseCallbackManager] | None":
    """Return what `answer_stream` returns; `None` outside of LangGraph, which is then not imported."""
    if "langgraph.pregel" not in sys.modules:
        return None
    from langchain_podium.graph.message_stream import answer_stream  # noqa: PLC0415

    return answer_stream(ensure_config())


def _ended(event: Event) -> Result:
    """Return the result of a run's last event."""
    assert isinstance(event, RunEnded)  # a run without a result raises
    return event.result


async def _only(asked: ConductorInput) -> AsyncGenerator[ConductorInput, None]:
    yield asked
