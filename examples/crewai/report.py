"""A crew whose manager is a conductor: two researchers side by side, an analyst, a writer.

    LLM_URL=http://127.0.0.1:8000/v1 LLM_KEY=... python report.py MODEL "heat pumps in old houses"

The endpoint is any that speaks OpenAI's API. CrewAI's telemetry is off unless you say so.
"""

import argparse
import os

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")

from crewai import LLM, Agent, Crew, Process, Task
from pydantic import BaseModel

from crewai_podium import ConductorManager
from podium import Limits


class Report(BaseModel):
    """What the crew is to hand in."""

    title: str
    findings: list[str]
    advice: str


def report_crew(llm: LLM) -> Crew:
    """Return the crew; each agent is one of the workers of every plan."""
    agents = [
        Agent(role=role, goal=goal, backstory=backstory, llm=llm)
        for role, goal, backstory in (
            ("Market researcher", "Find out what is sold, to whom, for how much.", "Reads trade papers."),
            ("Engineer", "Say what works, and what does not.", "Has built and mended many."),
            ("Analyst", "Weigh what others have found.", "Doubts figures until they add up."),
            ("Writer", "Write so that a busy reader acts on it.", "Was an editor."),
        )
    ]
    task = Task(
        description="Report on {topic} for somebody who has to decide this week.",
        expected_output="A title, three to five findings, and one sentence of advice.",
        agent=agents[-1],  # who has the last step, whatever is planned before it
        output_pydantic=Report,
    )
    manager = ConductorManager(planner=llm, limits=Limits(calls=20, seconds=300))
    return Crew(agents=agents, tasks=[task], process=Process.hierarchical, manager_agent=manager)


def main() -> None:
    """Kick the crew off, and show what was planned and spent."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("topic")
    said = parser.parse_args()
    llm = LLM(
        model=said.model,
        provider="openai",  # what the server speaks
        base_url=os.environ["LLM_URL"],
        api_key=os.environ.get("LLM_KEY", "none"),
    )
    crew = report_crew(llm)
    output = crew.kickoff({"topic": said.topic})
    report = output.pydantic
    assert isinstance(report, Report)
    print(report.title, *(f"- {finding}" for finding in report.findings), report.advice, sep="\n")
    print(f"\n{crew.manager_agent.results[-1].explain()}")
    print(f"The crew's own count: {output.token_usage.total_tokens} tokens.")


if __name__ == "__main__":
    main()
