"""The same crew, the same scripted models: CrewAI's own hierarchical manager, and a conductor.

The scripted manager of CrewAI's is a good one: it delegates each part once, in order, and
then answers by itself with what the last part came to, which is all that its loop lets it do.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from crewai import LLM, Agent, Crew, Process, Task
from servers.chat_server import Call, ChatServer, Reply, says

from crewai_podium import ConductorManager

PARTS = ("Research the market.", "Research the law.", "Weigh both.", "Write the report.")
ROLES = ("Market researcher", "Lawyer", "Analyst", "Writer")
ACCESS: tuple[tuple[int, ...], ...] = ((), (), (0, 1), (2,))
BODY = "It is so, for reasons that take some words to tell. " * 24  # some 300 tokens
PLAN = "\n".join(
    json.dumps({"worker": at, "subtask": part, "access": list(ACCESS[at])}) for at, part in enumerate(PARTS)
)


@dataclass
class Models:
    """A model of each kind, told apart by what they are asked; tokens are counted from the texts."""

    forgets: bool = False
    """Whether the manager answers by itself, once it has delegated the first part."""
    calls: int = 0
    tokens: int = 0
    worked: list[str] = field(default_factory=list)
    """Who of the crew was called, in turn."""

    def reply(self, call: Call) -> Reply:
        """Answer as the model that is asked would."""
        messages, tools = call.body["messages"], call.body.get("tools")
        told = json.dumps(messages)
        text, calls = f"{self._who(told)}: {BODY}", []
        if "You are the conductor" in told:
            text = PLAN
        elif tools:
            done = sum(message["role"] == "tool" for message in messages)
            if done < (1 if self.forgets else len(PARTS)):
                name = next(
                    t["function"]["name"] for t in tools if t["function"]["name"].startswith("delegate")
                )
                last = [m["content"] for m in messages if m["role"] == "tool"]
                context = "\n".join(last[seen] for seen in ACCESS[done])
                given = {"task": PARTS[done], "context": context, "coworker": ROLES[done]}
                function = {"name": name, "arguments": json.dumps(given)}
                text, calls = "", [{"id": f"c{done}", "type": "function", "function": function}]
            else:
                text = BODY
        else:
            self.worked.append(self._who(told))
        read = len(told + json.dumps(tools or "")) // 4
        written = len(text + json.dumps(calls)) // 4
        self.calls += 1
        self.tokens += read + written
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return says(
            call, text, usage=usage, tool_calls=calls, finish_reason="tool_calls" if calls else "stop"
        )

    def _who(self, told: str) -> str:
        return next((role for role in ROLES if f"You are {role}." in told), "somebody")


def kick(models: Models, *, conducted: bool) -> tuple[Any, Any]:
    """Kick the crew off under one manager or the other; return its output and its manager."""
    with ChatServer(models.reply).in_thread() as server:
        llm = LLM(model="openai/gpt-4o-mini", base_url=server.url, api_key="k")
        agents = [
            Agent(role=role, goal=f"Do a {role.lower()}'s work.", backstory="Long in the trade.", llm=llm)
            for role in ROLES
        ]
        manager: dict[str, Any] = {"manager_llm": llm}
        if conducted:
            manager = {"manager_agent": ConductorManager(planner=llm)}
        task = Task(description="Report on the new product.", expected_output="A report.")
        crew = Crew(agents=agents, tasks=[task], process=Process.hierarchical, **manager)
        return crew.kickoff(), crew.manager_agent


@pytest.fixture
def theirs() -> Models:
    """Return what CrewAI's manager took."""
    models = Models()
    kick(models, conducted=False)
    return models


@pytest.mark.long
def test_a_conductor_takes_fewer_calls_and_tokens(theirs: Models) -> None:
    """One call plans; CrewAI's manager is called again after every part, with all that was said so far."""
    ours = Models()
    output, manager = kick(ours, conducted=True)
    assert ours.calls == 1 + len(PARTS)
    assert theirs.calls > 1.5 * ours.calls
    assert theirs.tokens > 1.8 * ours.tokens
    assert output.raw.startswith("Writer: ")
    assert output.token_usage.total_tokens == ours.tokens == manager.results[0].usage.total_tokens


@pytest.mark.long
def test_a_conductor_has_parts_done_side_by_side(theirs: Models) -> None:
    """The two researches are under way at once; CrewAI's manager has delegated them in turn."""
    ours = Models()
    _, manager = kick(ours, conducted=True)
    market, law, weigh, _ = manager.results[0].outcomes
    assert max(market.started, law.started) < min(market.ended, law.ended) <= weigh.started
    assert theirs.worked == list(ROLES)
    assert sorted(ours.worked[:2]) == sorted(ROLES[:2])


def test_what_is_planned_is_not_forgotten() -> None:
    """A manager that answers too soon leaves parts undone, and nobody says so; a plan is carried out."""
    theirs, ours = Models(forgets=True), Models(forgets=True)
    output, _ = kick(theirs, conducted=False)
    assert theirs.worked == [ROLES[0]]
    assert output.raw == BODY  # no sign of it
    kick(ours, conducted=True)
    assert sorted(ours.worked) == sorted(ROLES)
