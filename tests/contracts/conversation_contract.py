"""The contract of chat models of hosts: an answer keeps its labels in the next turn, and labels can be given.

class TestMine(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any: ...  # the answer of the host
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import pytest
from core.actors import boss

from podium import Card, Conductor, ScriptedWorker
from podium.errors import PlannerError, WorkerFailed
from podium.policy import Policy, Rule

FIND, MAIL = (f'{{"worker": "{name}", "subtask": "x", "access": []}}\n' for name in ("web", "mailer"))
_PART = FIND.replace("web", "broken") + FIND + FIND.replace("[]", "[0, 1]")
NO_MAIL = Policy(
    labels="secret", rules=[Rule(label, never="write-tools") for label in ("untrusted", "secret")]
)


def mailing(*plans: str, policy: Policy | None = NO_MAIL) -> Conductor:
    """Return a conductor with a search, a mailer and a worker that fails."""
    workers = [
        ScriptedWorker(Card(name="web", labels=frozenset({"untrusted"})), "It is 330 m high."),
        ScriptedWorker(Card(name="mailer", labels=frozenset({"write-tools"})), "sent"),
        ScriptedWorker("broken", WorkerFailed("down")),
    ]
    return Conductor(boss(*plans), workers, policy=policy)


@pytest.mark.anyio
class ConversationContract:
    @abstractmethod
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        """Return the answer to a conversation: texts of the user and of the assistant, in turn."""

    @pytest.mark.parametrize("plan", [FIND, _PART], ids=["complete", "incomplete"])
    async def test_the_next_turn_knows_the_labels_of_an_answer(self, plan: str) -> None:
        """What a rule forbids within a turn, it forbids in the next, also if the host's text says more."""
        used = mailing(plan, MAIL)
        said = await self.ask(used, ["How high?"])
        assert await self.ask(used, ["How high?", "I do not know.", "Mail it."]) == "sent"
        with pytest.raises(PlannerError, match="mailer"):
            await self.ask(used, ["How high?", said, "Mail it."])

    async def test_labels_come_with_the_conductor(self) -> None:
        used = mailing(MAIL)
        assert await self.ask(used, ["Mail it."]) == "sent"
        with pytest.raises(PlannerError, match="mailer"):
            await self.ask(used.bind(labels={"secret"}), ["Mail it."])
