"""The job of the tests of durability: a diamond of steps whose answer shows what it was made of.

Each step's answer holds a digest of the answers it was shown, so that a run that lost,
mixed up or made up a step comes to another answer than `answer_of`.
"""

import re
from hashlib import sha256
from random import Random

from servers.chat_server import Call, ChatServer, Reply, says

from podium import Plan, Step

PARTS = {"A": (40, ""), "B": (20, "A"), "C": (80, "A"), "D": (40, "BC")}
"""Of each step, how long its worker takes in milliseconds, and which steps it is shown."""
_NAMES = "".join(PARTS)
_SUBTASK = re.compile(r"Do part (\w) of (\S+) now\.")
_ANSWER = re.compile(r"«(\w) of (\S+): (\w+)»")

Part = tuple[str, str]
"""A run's id and the name of one of its parts."""


def plan_of(run_id: str) -> Plan:
    """Return the diamond of a run; the workers are numbered as the parts are."""
    return Plan(
        tuple(
            Step(number, f"Do part {part} of {run_id} now.", tuple(map(_NAMES.index, shown)))
            for number, (part, (_, shown)) in enumerate(PARTS.items())
        )
    )


def answer_of(run_id: str, part: str = "D") -> str:
    return _write(part, run_id, [answer_of(run_id, shown) for shown in PARTS[part][1]])


def asked(call: Call) -> Part:
    part, run_id = _SUBTASK.findall(call.body["messages"][-1]["content"])[-1]
    return run_id, part


def serve(*, seed: int = 0, slow: float = 1.0) -> ChatServer:
    """Return the server of all workers; `slow` times as slow as `PARTS` says, more or less."""
    moments = Random(seed)  # noqa: S311

    def reply(call: Call) -> Reply:
        run_id, part = asked(call)
        prompt = call.body["messages"][-1]["content"]
        text = _write(part, run_id, [found.group() for found in _ANSWER.finditer(prompt)])
        return says(call, text, delay=slow * PARTS[part][0] / 1e3 * moments.uniform(0.7, 1.3))

    return ChatServer(reply)


def delivered(calls: list[Call]) -> list[Part]:
    """Return the steps whose whole answer went out, once for each time it did."""
    return [asked(call) for call in calls if call.answered.is_set()]


def _write(part: str, run_id: str, shown: list[str]) -> str:
    digest = sha256("".join(sorted(set(shown))).encode()).hexdigest()[:12]
    return f"«{part} of {run_id}: {digest}»"
