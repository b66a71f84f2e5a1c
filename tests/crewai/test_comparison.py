"""The same crew, the same scripted models: CrewAI's own hierarchical manager, and a conductor.

The scripted manager of CrewAI's is a good one: it delegates each part once, in order, and
then answers by itself with what the last part came to, which is all that its loop lets it do.
"""

import json
from dataclasses import dataclass
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

    calls: int = 0
    tokens: int = 0

    def reply(self, call: Call) -> Reply:
        """Answer as the model that is asked would."""
        messages, tools = call.body["messages"], call.body.get("tools")
        told = json.dumps(messages)
        text, calls = f"{self._who(told)}: {BODY}", []
        if "You are the conductor" in told:
            text = PLAN
        elif tools:
            done = sum(message["role"] == "tool" for message in messages)
            if done < len(PARTS):
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


@pytest.mark.long
def test_a_conductor_takes_fewer_calls_and_tokens() -> None:
    """One call plans; CrewAI's manager is called again after every part, with all that was said so far."""
    theirs, ours = Models(), Models()
    kick(theirs, conducted=False)
    output, manager = kick(ours, conducted=True)
    assert ours.calls == 1 + len(PARTS)
    assert theirs.calls > 1.5 * ours.calls
    assert theirs.tokens > 1.8 * ours.tokens
    assert output.raw.startswith("Writer: ")
    assert output.token_usage.total_tokens == ours.tokens == manager.results[0].usage.total_tokens
