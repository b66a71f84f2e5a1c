"""Passes the pieces of texts from the runs of this process to the viewers of these runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from podium.budget import Limits
from podium.types import (
    AnswerDelta,
    AttemptFailed,
    Event,
    PlanDelta,
    PlannerEnded,
    RunResumed,
    RunStarted,
    StepDelta,
    StepEnded,
)
from podium.types.steps import AnyStep
from podium_server.turn.plan_draft import PlanDraft

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
        """Yield a stream with what is being written in a run, and then each further piece.

        Args:
            run_id: the run.
            wake: called after each further piece.
        """
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
