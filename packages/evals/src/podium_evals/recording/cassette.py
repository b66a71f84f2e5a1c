"""Records each call of a run by its whole prompt, and replays it exactly.

A file of JSON lines. The first line names the kind of file. Each other line is one answer:

    {"type": "cassette", "version": 1}
    {"type": "call", "key": "…", "number": 0, "worker": "…", "asked": […], "seconds": 2.1, "answer": {…}}
"""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Literal, Self

import anyio

from podium.errors import JournalBroken
from podium.secrets import scrub
from podium.types import Completion
from podium.types.codec import read_record, write_record
from podium.workers import Request, Worker
from podium_evals.errors import RecordingInvalid, Unrecorded
from podium_evals.recording.appended_lines import AppendedLines, read_lines

_BEGINS = '{"type": "cassette", "version": 1}'
_SHOWN = 60

Mode = Literal["replay", "record"]


class Cassette:
    """The answers that runs have got, in a file. Pass it as the `middleware` of a run.

    A call is found by the name of its worker, all messages, the caller's tools, the named texts, the sampling
    settings but `max_tokens`, the form of the answer, and its number among the equal calls of its run. So
    three equal calls of a run have three answers, and another run gets the same three. The calls of a
    planner that asks a model are recorded, too. Calls that fail are not.

    Use it as a context manager. It may serve several runs at the same time.

    Args:
        path: the file; gzipped if its name ends in `.gz`.
        mode: `replay` calls no worker: a call that was not recorded fails with `Unrecorded`. `record` makes
            such a call, and appends its answer before the run has it.

    Raises:
        RecordingInvalid: on entering: the file is another one, or cannot be read or written, or another
            process appends to it.
    """

    def __init__(self, path: Path | str, *, mode: Mode = "replay") -> None:
        self.path = Path(path)
        self.replayed = 0
        """Number of calls that were answered from the file."""
        self.recorded = 0
        """Number of calls whose answers were appended."""
        self._file = AppendedLines(self.path, begins=_BEGINS, what="cassette") if mode == "record" else None
        self._answers = dict[tuple[str, int], tuple[int | None, Completion]]()
        """The `max_tokens` of a call, and its answer."""
        self._taken: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """The numbers of the calls of each run and key."""
        self._locks: defaultdict[tuple[str, int], anyio.Lock] = defaultdict(anyio.Lock)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._file is None:
                lines = read_lines(self.path, begins=_BEGINS, what="cassette")
            else:
                stack.enter_context(self._file)
                lines = self._file.lines
                if not lines:
                    self._file.write([f"{_BEGINS}\n"])
            for number, line in enumerate(lines[1:], 2):
                self._read(line, f"{self.path}, line {number}")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _read(self, line: bytes, where: str) -> None:
        try:
            row = json.loads(line)
            answer = read_record(json.dumps(row["answer"]), Completion, "completion")
            self._answers[row["key"], row["number"]] = (row["max_tokens"], answer)
        except (ValueError, LookupError, TypeError, JournalBroken) as error:
            raise RecordingInvalid(f"{where} is not a call of a cassette: {error}") from error

    async def __call__(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Yield the recorded answer of a call, or the pieces of the call that is recorded.

        Raises:
            Unrecorded: the call was not recorded, and the mode is `replay`.
            RecordingInvalid: the file cannot be written.
        """
        asked = _asked(worker, request)
        key = sha256(json.dumps(asked, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
        taken = self._taken["" if request.caller is None else request.caller.run_id, key]
        # A planner repeats a call only after a failure, and no caller names its run.
        number = 0 if request.caller is None else next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(number)
        has_answer = False
        try:
            async with self._locks[key, number]:  # an equal call of another run waits for the answer
                found = self._found(key, number, request)
                call = (
                    self._replay(found, request)
                    if found
                    else self._record(worker, request, asked, key, number)
                )
                async with aclosing(call) as pieces:
                    async for piece in pieces:
                        has_answer = has_answer or isinstance(piece, Completion)
                        yield piece
        finally:
            if not has_answer:
                taken.discard(number)

    def _found(self, key: str, number: int, request: Request) -> Completion | None:
        """Return the recorded answer of a call; `None` if it would now have been cut elsewhere."""
        cap, answer = self._answers.get((key, number), (None, None))
        is_cut = answer is not None and answer.finish_reason == "length"
        return None if is_cut and cap != request.sampling.max_tokens else answer

    async def _replay(self, answer: Completion, request: Request) -> AsyncGenerator[str | Completion, None]:
        self.replayed += 1
        if request.stream and answer.text:
            yield answer.text
        yield answer

    async def _record(
        self, worker: Worker, request: Request, asked: list[Any], key: str, number: int
    ) -> AsyncGenerator[str | Completion, None]:
        if self._file is None:
            told = f", call {number + 1} with this prompt" if number else ""
            asks = request.messages[-1].text if request.step_input is None else request.step_input.subtask
            raise Unrecorded(
                f"{self.path} has no answer of {worker.card.name!r} to {asks[-_SHOWN:]!r}{told}, with these "
                "messages and settings: record it with mode='record', or `podium evals record run`"
            )
        began = monotonic()
        async with aclosing(worker.call(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    cap = request.sampling.max_tokens
                    row = {"type": "call", "key": key, "number": number, "worker": worker.card.name}
                    row |= {"asked": asked, "max_tokens": cap, "seconds": round(monotonic() - began, 3)}
                    row["answer"] = json.loads(write_record(piece, "completion"))
                    await self._file.append([scrub(json.dumps(row)) + "\n"])
                    self._answers[key, number] = (cap, piece)
                    self.recorded += 1
                yield piece


def _asked(worker: Worker, request: Request) -> list[Any]:
    """Return what a call is found by, as JSON."""
    tools = None if request.tools is None else [*request.tools.offered, request.tools.choice]
    texts = () if request.step_input is None or not worker.takes_texts else request.step_input.texts
    sampling = replace(request.sampling, max_tokens=None)
    return [
        worker.card.name,
        [each.to_wire() for each in request.messages],
        tools,
        list(texts),
        repr(sampling),
    ]
