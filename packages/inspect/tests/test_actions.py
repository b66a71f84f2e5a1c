"""Actions below a conductor that is a model of Inspect."""

import pytest
from contracts.actions_contract import ActionHost, ActionsContract, Refund

from inspect_podium import conductor_model
from podium import Card, Conductor
from podium.hosts import ToolWorker
from podium.workers import FREE, Worker

ORDER = {"properties": {"order": {"type": "integer"}}, "required": ["order"]}


class Asked(ActionHost):
    """A model; its pool has workers of Podium only."""

    def tool(self, refund: Refund) -> Worker:
        async def call(arguments: dict[str, int]) -> str:
            return refund(arguments["order"])

        return ToolWorker(ORDER, call, card=Card(name="refund", price=FREE))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        output = await conductor_model(conductor).generate("Refund it.")
        return (output.metadata or {})["podium"]["status"], output.completion


class TestActions(ActionsContract):
    @pytest.fixture
    def host(self) -> ActionHost:
        return Asked()
