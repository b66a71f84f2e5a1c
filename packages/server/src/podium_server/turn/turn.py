"""Runs a request, and yields the pieces of its answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from time import time

from podium.errors import PlannerError, PodiumError, RunFailed, WorkerRefused
from podium.hosts import ChatAnswer, ChatCall
from podium.hosts.progress import Progress
from podium.hosts.results import answered
from podium.journal import Journal
from podium.types import Part, Result, RunEnded, RunResumed, RunStarted
from podium_server.errors import RunCancelled, ServerError, without_urls
from podium_server.http import ServerStopping
from podium_server.keys import Admission
from podium_server.keys.recorded import recorded_actions
from podium_server.models import ServedModel
from podium_server.record import Record
from podium_server.settings import Effort
from podium_server.turn.asked import Answered, Asked, checked_answer
from podium_server.turn.earlier import Recorded
from podium_server.turn.running import Interrupt, LivePieces


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ProgressPiece:
    """A piece of text about the progress of the run, which APIs send as reasoning."""

    text: str


Piece = TextPiece | ProgressPiece


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about a turn before its run."""

    asked: Asked
    model: ServedModel
    effort: Effort | None
    run_id: str
    admission: Admission
    call: ChatCall
    record: Record
    """What the log and the metrics tell about the request."""
    live: LivePieces
    """Gets the events of the run."""
    recorded: Recorded | None
    """The recorded run of an earlier request with the same idempotency key."""
    journal: Journal | None
    """Records the run; `None` for a hosted conductor."""
    keep: Callable[[str, Sequence[Part], ChatAnswer], Awaitable[None]]
    """Keeps the continuation of an answer with tool calls."""


_REFUSALS = (400, 413, 415, 422)
"""The statuses of a request that is invalid; for others, such as a wrong key, the client can do nothing."""


class ProviderRefused(ServerError):
    """The provider of a worker that answers as itself has refused the request."""

    code = WorkerRefused.code
    status = 400


class Turn:
    """One admitted request. `pieces` runs it; afterwards `answer` is set."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.interrupt = Interrupt()
        """Ends the run from outside."""
        self.run_id = facts.run_id
        self.model = facts.model
        self.created = int(time())
        """When the turn began, in seconds of Unix time."""
        self._is_replayed = facts.recorded is not None
        """Whether an earlier request has made the answer."""
        self._answered: Answered | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response, in lower case."""
        headers = {"x-podium-run-id": self.run_id, "x-podium-model": self.model.versioned_id}
        if self._facts.effort is not None:
            headers["x-podium-effort"] = self._facts.effort
        if self._is_replayed:
            headers["idempotent-replayed"] = "true"
        if self._answered is not None:
            headers["x-podium-status"] = str(self.answered.summary["status"])
            headers["x-podium-usage"] = "estimated" if self.answered.usage.estimated else "measured"
        return {**headers, **self._facts.admission.headers}

    @property
    def answered(self) -> Answered:
        """The answer as the request asked for it, after `pieces` has ended."""
        assert self._answered is not None
        return self._answered

    async def run(self) -> str:
        """Run the request, and return the text about its progress."""
        async with aclosing(self.pieces()) as pieces:
            told = [piece.text async for piece in pieces if isinstance(piece, ProgressPiece)]
        return "".join(told)

    async def frames(
        self, text: Callable[[str], bytes], progress: Callable[[str], bytes], end: Callable[[], bytes]
    ) -> AsyncGenerator[bytes, None]:
        """Run the request, and yield its pieces as the functions write them; empty frames are left out."""
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                if data := (text if isinstance(piece, TextPiece) else progress)(piece.text):
                    yield data
        yield end()

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Run the request, and yield the pieces of its answer and of its progress.

        Leaving the iteration cancels the run.
        """
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        except (RunFailed, PlannerError) as error:
            failure = self._facts.admission.failure(error)
            if self.model.is_worker and failure is error and (told := _refusal(error)):
                failure = ProviderRefused(told)
                failure.run_id = self.run_id
            failure.actions = error.actions
            raise failure from error
        except (RunCancelled, ServerStopping) as error:
            actions = await recorded_actions(self._facts.journal, self.run_id)
            error.actions, error.knows_actions = actions or (), actions is not None
            raise

    async def _pieces(self) -> AsyncGenerator[Piece, None]:
        recorded, call = self._facts.recorded, self._facts.call
        progress = Progress(self.model.show, self.run_id)
        if recorded is not None:
            result = recorded.result
            self._facts.admission.settle(result)
            await self._check(ChatAnswer(answered(result), spent_before=result.usage))
            if told := "".join(map(progress.text, recorded.events)):
                yield ProgressPiece(told)
            if self.answered.answer.text:
                yield TextPiece(self.answered.answer.text)
            return
        is_executed = False
        with self._facts.live.publishing(self.run_id) as publish:
            async with (
                aclosing(call.events(stream=self._facts.asked.stream)) as events,
                aclosing(self.interrupt.guarded(events)) as guarded,
            ):
                async for event, text in guarded:
                    publish(event)
                    is_executed |= isinstance(event, RunStarted | RunResumed)
                    if isinstance(event, RunEnded) and event.run_id == self.run_id:
                        self._ended(event.result)
                    if told := progress.text(event):
                        yield ProgressPiece(told)
                    if text:
                        yield self._text(text)
        self._is_replayed = not is_executed  # it waited for another replica
        await self._check(call.answer())
        if rest := call.rest() + self.answered.answer.lack:
            yield TextPiece(rest)

    def _ended(self, result: Result) -> None:
        """Charge the run, and note its end."""
        self._facts.record.run_id, self._facts.record.result = self.run_id, result
        self._facts.admission.settle(result)

    def _text(self, text: str) -> TextPiece:
        if self._facts.asked.stream:
            self._facts.record.text_begins()
        return TextPiece(text)

    async def _check(self, answer: ChatAnswer) -> None:
        """Set the answer, check its form, and keep the continuation of its tool calls."""
        acts = self.model.conductor.acts
        self._answered = await checked_answer(self._facts.asked, self.run_id, answer, acts=acts)
        if self.answered.tool_calls:
            await self._facts.keep(self.run_id, self.answered.tool_calls, self.answered.answer)


def _refusal(error: PodiumError) -> str:
    """Return what the provider said about the request; empty if it has not refused the request."""
    result = error.result if isinstance(error, RunFailed) else None
    problems = [] if result is None else [outcome.problem for outcome in result.outcomes]
    told = [each.message for each in problems if each is not None and each.status in _REFUSALS]
    return without_urls(told[0]) if told else ""
