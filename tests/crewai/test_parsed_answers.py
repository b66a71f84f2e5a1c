"""Answers in a form that the client of OpenAI parses, and cannot."""

import pytest
from crewai import LLM, Agent
from servers.chat_server import ChatServer, says
from servers.crew_scene import Finding, Scene

from crewai_podium import ConductorManager
from podium.errors import AnswerCut, AnswerRefused, RunFailed
from podium.planners import FixedPlanner
from podium.types import Plan, Step


@pytest.mark.parametrize(
    ("finish", "code"), [("length", AnswerCut.code), ("content_filter", AnswerRefused.code)]
)
def test_an_answer_that_cannot_be_parsed_is_told_by_its_end(finish: str, code: str) -> None:
    """The step is not tried again, and the tokens that the server reported are on the bill."""
    manager = ConductorManager(planner=FixedPlanner(Plan((Step(0, "find"),))))
    with ChatServer(lambda call: says(call, '{"height": 3', finish_reason=finish)).in_thread() as server:
        llm = LLM(model="openai/m", base_url=server.url, api_key="none", max_retries=0)
        agent = Agent(role="Finder", goal="Find.", backstory="New here.", llm=llm, max_retry_limit=0)
        crew = Scene.crew_of(manager, [agent], [Scene.task("How high?", output_pydantic=Finding)])
        with pytest.raises(RunFailed):
            crew.kickoff()
        (outcome,) = manager.results[-1].outcomes
        assert outcome.problem is not None
        assert (outcome.status, outcome.problem.code, len(server.calls)) == ("failed", code, 1)
        if finish == "length":
            assert (outcome.usage.total_tokens, outcome.usage.estimated) == (218, False)
