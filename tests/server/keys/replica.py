"""A replica in its own process: makes requests with a key, and prints the cost of each.

Arguments: the URL of the database, the key, the number of requests, and the seconds of each run. With a
negative number of seconds, runs never end, and the replica prints `running` when they are admitted.
"""

import sys
from contextlib import AsyncExitStack
from itertools import count
from uuid import uuid4

import anyio

from podium import Card, Conductor, Limits, Price
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request, Worker
from podium_server.keys import Ask, KeyAccess, KeyRefused, KeyStore


class Slow(Worker):
    """Answers after some time; each call costs up to $0.01."""

    def __init__(self, seconds: float) -> None:
        self.card = Card(name="slow", price=Price(input=0.0, output=100.0))
        self._seconds = seconds
        self._calls = count(37)

    async def call(self, request: Request):  # noqa: ANN201 - an async generator
        """Wait, and answer."""
        await (anyio.sleep(self._seconds) if self._seconds >= 0 else anyio.sleep_forever())
        yield Completion("done", usage=Usage(1, 1 + next(self._calls) % 100))


async def main(url: str, token: str, requests: int, seconds: float) -> None:
    """Make all requests at the same time."""
    journal = SqlJournal(url)
    plan = '{"worker": 0, "subtask": "Answer.", "access": []}'
    conductor = Conductor(
        FixedPlanner(plan), [Slow(seconds)], limits=Limits(answer_tokens=100), journal=journal
    )
    store = KeyStore(journal)
    access = KeyAccess(store, journal=journal)

    async def request() -> None:
        caller, run_id = await access.authenticate(token), uuid4().hex
        try:
            async with access.admit(caller, Ask(model="m", conductor=conductor, run_id=run_id)) as admission:
                result = None
                async for event in conductor.stream("Why?", run_id=run_id, **admission.options):
                    if event.type == "step_started" and seconds < 0:
                        tell("running")
                    result = getattr(event, "result", result)
                assert result is not None
                admission.settle(result)
                tell(result.cost)
        except KeyRefused as refusal:
            tell(refusal.code)

    async with AsyncExitStack() as stack:
        for each in (journal, store, access):
            await stack.enter_async_context(each)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for _ in range(requests):
            tasks.start_soon(request)


def tell(line: object) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
