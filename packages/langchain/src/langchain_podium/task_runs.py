"""The ids of runs in a task of LangGraph: each try of a task continues the runs of the tries before.

A task is one execution of a node, or of a function of the functional API, at one checkpoint.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Any, Final
from uuid import UUID

from langchain_core.runnables.config import ensure_config

from langchain_podium.graph.around import RUNTIME
from podium.conductor import Conductor
from podium.types import Message, Plan

_MOST: Final = 10_000
"""Maximum questions that are remembered; the oldest is removed first."""
_begun: Final = OrderedDict[Any, set[int]]()
"""The numbers of the runs that are in progress or have answered, by the try of a task and the question."""
_lock: Final = Lock()


@contextmanager
def run_in_task(
    conductor: Conductor, asked: Sequence[Message] | Plan, run_id: UUID, *, is_given: bool = False
) -> Iterator[str | None]:
    """Yield the id of the recorded run that the block executes; `None` without a journal.

    It is LangChain's `run_id` if the caller has given it, or outside of LangGraph's tasks. The k-th answer to
    a question in a task has the same id in all tries of the task. A block that raises has no answer, so the
    next block with the same question gets the same id.
    """
    runtime = ensure_config().get("configurable", {}).get(RUNTIME)
    task = None if is_given else getattr(runtime, "execution_info", None)
    if conductor.journal is None or task is None:
        yield None if conductor.journal is None else str(run_id)
        return
    said = asked.to_json() if isinstance(asked, Plan) else [message.to_wire() for message in asked]
    question = json.dumps(
        [task.thread_id, task.checkpoint_ns, task.task_id, conductor.card.name, said], sort_keys=True
    )
    attempt = task.node_first_attempt_time, task.node_attempt, question
    with _lock:
        taken = _begun.setdefault(attempt, set())
        number = next(each for each in count() if each not in taken)
        taken.add(number)
        while len(_begun) > _MOST:
            _begun.popitem(last=False)
    try:
        yield sha256(f"{question} {number}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    except BaseException:  # also after a cancellation: the try may be taken again
        with _lock:
            taken.discard(number)
        raise
