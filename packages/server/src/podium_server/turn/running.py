"""The runs that this process executes: their ends from outside, and the pieces of their texts for viewers."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import PlanError, PodiumError
from podium.hosts.chat import whole_answers
from podium.plan_text import PlanReader
from podium.types import (
    AnswerDelta,
    AttemptFailed,
    Completion,
    Event,
    PlanDelta,
    PlannerEnded,
    RunResumed,
    RunStarted,
    StepDelta,
    StepEnded,
)
from podium.types.steps import AnyStep
from podium.workers import CallMiddleware, Request, Worker
from podium_server.errors import RunCancelled
from podium_server.http import ServerStopping

Item = TypeVar("Item")


class Interrupt:
    """Ends a run from outside, with an exception."""

    def __init__(self) -> None:
        self._error: PodiumError | None = None
        self._scope = anyio.CancelScope()

    def set(self, error: PodiumError) -> None:
        """End the run with this exception; a second call does nothing."""
        self._error = self._error or error
        self._scope.cancel()

    async def guarded(self, items: AsyncIterator[Item]) -> AsyncGenerator[Item, None]:
        """Yield the items until the run is ended from outside."""
        while True:
            item = None
            with self._scope:
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
            if self._error is not None:
                raise self._error
            assert item is not None
            yield item
            self._scope = anyio.CancelScope()  # a scope is entered once, and never held across a `yield`


@dataclass(frozen=True, slots=True, eq=False)
class OpenRun:
    """The run of an open request."""

    run_id: str
    interrupt: Interrupt
    is_recorded: bool
    is_named: bool
    """Whether the request has an idempotency key, so that a repetition continues the run."""

    def stopping(self) -> ServerStopping:
        """Return the exception for the end of the server."""
        told = f"the server is stopping, and run {self.run_id} was interrupted"
        if self.is_named:
            how = "repeat the request with the same Idempotency-Key to continue it"
        elif self.is_recorded:
            how = f"continue it with POST /v1/runs/{self.run_id}/resume"
        else:
            how = "it was not recorded, and a new request pays for it again"
        return ServerStopping(f"{told}: {how}", repeats=self.is_named, run_id=self.run_id)


class Running:
    """The runs of open requests."""

    def __init__(self) -> None:
        self._runs: set[OpenRun] = set()

    def __len__(self) -> int:
        return len(self._runs)

    @contextmanager
    def holding(self, run: OpenRun) -> Iterator[None]:
        """Know the run in the block."""
        self._runs.add(run)
        try:
            yield
        finally:
            self._runs.discard(run)

    def cancel(self, run_ids: Collection[str]) -> bool:
        """Cancel runs; return whether there was one."""
        found = [run for run in self._runs if run.run_id in run_ids]
        for run in found:
            run.interrupt.set(RunCancelled(run.run_id))
        return bool(found)

    def stop(self) -> None:
        """End all runs, because the server stops."""
        for run in self._runs:
            run.interrupt.set(run.stopping())


class PlanDraft:
    """The steps of a plan text that are complete. Only rows are complete before the end of the text.

    The numbers of workers are those that the planner was shown, and not always those of the run.
    """

    def __init__(self, workers: Sequence[str], most: int, *, previous: bool) -> None:
        self._reader: PlanReader | None = PlanReader(workers=workers, max_steps=most, previous=previous)
        self.steps: list[AnyStep] = []

    def add(self, text: str) -> Sequence[AnyStep]:
        """Add a piece of the text, and return the steps that it completes."""
        if self._reader is None:
            return ()
        try:
            steps = self._reader.feed(text)
        except PlanError:  # the end of the planner's call tells it
            self._reader = None
            return ()
        self.steps += steps
        return steps


Piece = PlanDelta | StepDelta | AnswerDelta
"""An event with a piece of a text, which is not recorded."""
_Place = tuple[str, int | None, int | None]
_MOST = 1000
"""Pieces that wait for one viewer. The run never waits: a viewer that is too slow loses the next pieces of a
text, and then gets the whole text with its next piece."""


@dataclass(frozen=True, slots=True)
class Written:
    """A piece for a viewer."""

    piece: Piece
    is_whole: bool = False
    """Whether it has all that was written so far, and replaces what the viewer has."""
    steps: Sequence[AnyStep] = ()
    """The steps of the plan that it completes; if it is whole, all complete steps."""


@dataclass(slots=True)
class _Text:
    """A text that is being written."""

    first: Piece
    parts: list[str] = field(default_factory=list)
    draft: PlanDraft | None = None
    """The steps of a plan; `None` while nobody has watched it."""

    @property
    def written(self) -> str:
        return "".join(self.parts)


@dataclass(slots=True)
class _Run:
    """A run that this process executes."""

    workers: Sequence[str] = ()
    plan_steps: int = Limits().plan_steps
    texts: dict[_Place, _Text] = field(default_factory=dict)

    def steps(self, text: _Text) -> Sequence[AnyStep]:
        """Return the steps of a plan that are complete."""
        if isinstance(text.first, PlanDelta) and text.draft is None:
            text.draft = PlanDraft(self.workers, self.plan_steps, previous=text.first.round > 1)
            text.draft.add(text.written)
        return () if text.draft is None else tuple(text.draft.steps)

    def whole(self, text: _Text) -> Written:
        """Return all that was written of a text."""
        return Written(replace(text.first, text=text.written), is_whole=True, steps=self.steps(text))


@dataclass(slots=True)
class _Viewer:
    """A viewer of a run."""

    pieces: MemoryObjectSendStream[Written]
    wake: Callable[[], object]
    behind: set[_Place] = field(default_factory=set)
    """The texts of which it has lost pieces."""


class LivePieces:
    """The pieces of the texts of the runs that this process executes."""

    def __init__(self) -> None:
        self._viewers: dict[str, list[_Viewer]] = {}
        self._runs: dict[str, _Run] = {}

    @contextmanager
    def publishing(self, run_id: str) -> Iterator[Callable[[Event], None]]:
        """Yield a function that passes the next event of a run to its viewers."""
        self._runs[run_id] = _Run()
        try:
            yield self._publish
        finally:
            self._runs.pop(run_id, None)

    def is_watched(self, run_id: str) -> bool:
        """Return whether a run has a viewer."""
        return run_id in self._viewers

    @contextmanager
    def of(self, run_id: str, wake: Callable[[], object]) -> Iterator[MemoryObjectReceiveStream[Written]]:
        """Yield a stream with what is being written in a run, and then each further piece."""
        run = self._runs.get(run_id, _Run())
        texts = list(run.texts.values())
        writer, reader = anyio.create_memory_object_stream[Written](_MOST + len(texts))
        for text in texts:
            writer.send_nowait(run.whole(text))
        viewer = _Viewer(writer, wake)
        self._viewers.setdefault(run_id, []).append(viewer)
        try:
            with writer, reader:
                yield reader
        finally:
            self._viewers[run_id].remove(viewer)
            if not self._viewers[run_id]:
                del self._viewers[run_id]

    def _publish(self, event: Event) -> None:
        run = self._runs.get(event.run_id)
        match event:
            case PlanDelta() | StepDelta() | AnswerDelta():
                steps = () if run is None else self._add(run, event)
                self._pass(run, event, steps)
            case RunStarted() | RunResumed() if run is not None:
                run.workers = event.workers
                if event.limits is not None:
                    run.plan_steps = event.limits.plan_steps
            case StepEnded() | AttemptFailed() if run is not None:
                run.texts.pop((StepDelta.type, event.round, event.step), None)
            case PlannerEnded() if run is not None:
                run.texts.pop((PlanDelta.type, event.round, None), None)

    def _add(self, run: _Run, piece: Piece) -> Sequence[AnyStep]:
        """Add a piece to its text, and return the steps of the plan that it completes."""
        place = _place(piece)
        text = run.texts.get(place)
        if text is None or _call(text.first) != _call(piece):  # another call writes the text again
            text = run.texts[place] = _Text(piece)
        text.parts.append(piece.text)
        if text.draft is not None:
            return text.draft.add(piece.text)
        return run.steps(text) if self.is_watched(piece.run_id) else ()

    def _pass(self, run: _Run | None, piece: Piece, steps: Sequence[AnyStep]) -> None:
        place = _place(piece)
        for viewer in self._viewers.get(piece.run_id, ()):
            written = Written(piece, steps=steps)
            if run is not None and place in viewer.behind:
                written = run.whole(run.texts[place])
            try:
                viewer.pieces.send_nowait(written)
            except anyio.WouldBlock:
                viewer.behind.add(place)
            else:
                viewer.behind.discard(place)
                viewer.wake()


def _place(piece: Piece) -> _Place:
    """Return the text to which a piece belongs."""
    match piece:
        case PlanDelta():
            return piece.type, piece.round, None
        case StepDelta():
            return piece.type, piece.round, piece.step
        case AnswerDelta():
            return piece.type, None, None


def _call(piece: Piece) -> tuple[int | None, ...]:
    """Return the call that writes a piece; the calls of a planner are told apart by their ends."""
    if isinstance(piece, PlanDelta):
        return (piece.round,)
    return piece.round, piece.step, piece.attempt


def watched_calls(live: LivePieces, run_id: str, inner: CallMiddleware | None = None) -> CallMiddleware:
    """Return a middleware that streams the calls of a run that has a viewer when the call begins.

    Other calls are made without streaming, and so are calls of conductors: the pieces of a nested run do not
    fit its answer if a retry writes another text.
    """
    whole = whole_answers(inner)

    def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        if isinstance(worker, Conductor) or not live.is_watched(run_id):
            return whole(worker, request)
        return worker.call(request) if inner is None else inner(worker, request)

    return middleware
