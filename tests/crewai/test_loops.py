"""A conductor as CrewAI's LLM in many event loops and threads, over CrewAI's own LLMs."""

import pytest
from contracts.loops_contract import MODES, RUNS, Face, Mode, check_loops
from crewai import LLM

from crewai_podium import ConductorLLM, as_worker
from podium import Conductor
from podium.execution import Retry
from podium.planners import ChatPlanner


def llm(url: str) -> Face:
    planner, worker = (LLM(model="openai/gpt-4o-mini", base_url=url, api_key="k") for _ in range(2))
    workers = [as_worker(worker, name="worker")]
    asked = ConductorLLM(Conductor(ChatPlanner(as_worker(planner)), workers, retry=Retry(attempts=1)))

    async def ask() -> str:
        return str(await asked.acall("Why?"))

    return Face(ask, lambda: str(asked.call("Why?")))


@pytest.mark.long
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_no_call_is_lost_whatever_loop_it_is_made_in(mode: Mode, runs: int) -> None:
    """Every answer is whole, and the server got each call once."""
    check_loops(llm, mode, runs)
