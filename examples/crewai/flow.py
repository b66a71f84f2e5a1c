"""A flow: a crew under a conductor drafts; where that lacks something, an editor with another pool mends.

LLM_URL=http://127.0.0.1:8000/v1 LLM_KEY=... python flow.py MODEL "heat pumps in old houses"
"""

import argparse
import asyncio
import os

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")

from crewai import LLM, Agent, Crew, Process, Task
from crewai.flow.flow import Flow, listen, router, start
from crewai.llms.base_llm import BaseLLM
from pydantic import BaseModel

from crewai_podium import ConductorLLM, ConductorManager, as_planner, as_worker
from podium import Conductor, Limits


class Draft(BaseModel):
    """What the flow carries along."""

    topic: str = ""
    text: str = ""
    lacks: str = ""


class Briefing(Flow[Draft]):
    """Drafts a briefing; has it mended where steps of the draft failed."""

    llm: BaseLLM

    @start()
    async def draft(self) -> None:
        """Have a crew write it."""
        agents = [
            Agent(role="Researcher", goal="Find facts.", backstory="Reads all day.", llm=self.llm),
            Agent(role="Writer", goal="Write plainly.", backstory="Was an editor.", llm=self.llm),
        ]
        manager = ConductorManager(planner=self.llm, limits=Limits(calls=12))
        task = Task(description=f"Brief me on {self.state.topic}.", expected_output="Five sentences.")
        crew = Crew(agents=agents, tasks=[task], process=Process.hierarchical, manager_agent=manager)
        self.state.text = (await crew.akickoff()).raw
        problem = manager.results[-1].problem
        self.state.lacks = "" if problem is None else problem.message

    @router(draft)
    def check(self) -> str:
        """Say whether it is whole: a conductor tells what an answer lacks."""
        return "part" if self.state.lacks else "whole"

    @listen("part")
    async def mend(self) -> str:
        """Have one agent do it over, whose LLM is a conductor of its own."""
        pool = [as_worker(self.llm, name="thinker"), as_worker(self.llm, name="checker")]
        llm = ConductorLLM(Conductor(as_planner(self.llm), pool))
        editor = Agent(role="Editor", goal="Make texts whole.", backstory="Exact.", llm=llm)
        done = await editor.kickoff_async(f"Mend this, which lacks: {self.state.lacks}\n\n{self.state.text}")
        return str(done.raw)

    @listen("whole")
    def hand_in(self) -> str:
        """Hand in what the crew wrote."""
        return self.state.text


async def main() -> None:
    """Run the flow."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("topic")
    said = parser.parse_args()
    llm = LLM(
        model=said.model,
        provider="openai",  # what the server speaks
        base_url=os.environ["LLM_URL"],
        api_key=os.environ.get("LLM_KEY", "none"),
        max_retries=0,  # Podium retries, in one place
    )
    print(await Briefing(llm=llm).kickoff_async({"topic": said.topic}))


if __name__ == "__main__":
    asyncio.run(main())
