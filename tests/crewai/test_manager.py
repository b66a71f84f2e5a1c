"""A crew under a conductor: what CrewAI promises of a crew holds, and what Podium promises of a run."""

import asyncio
import threading
from contextlib import nullcontext
from typing import Any

import pytest
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from servers.capable import is_planning
from servers.chat_server import USAGE, Call, ChatServer, Reply, says
from servers.crew_scene import PLAN, Finding, Scene
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorManager, as_worker
from podium.conductor import Conductor
from podium.errors import AnswerCut, AnswerRefused, ConfigError, RunFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text.saved import SavedPlan
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Plan, Step
from podium.workers import Calculator, Card, ChatWorker, Endpoint, Worker


def test_a_task_is_planned_once_and_done_by_the_agents() -> None:
    """One call to plan, one for each step; the crew's metrics and the steps' bills tell of just these."""
    scene = Scene()
    output = scene.crew().kickoff()
    assert output.raw == '{"height": 330, "words": "of iron"}'
    assert len(scene.sent) == 4
    (result,) = scene.manager.results
    assert [(o.worker, o.status, o.usage.total_tokens) for o in result.outcomes] == [
        ("Finder", "ok", 242),
        ("Finder", "ok", 242),
        ("Writer", "ok", 242),
    ]
    assert (output.token_usage.total_tokens, output.token_usage.successful_requests) == (968, 4)
    assert output.tasks_output[0].agent == "Conductor"
    assert output.tasks_output[0].messages[-1]["content"] == output.raw


@tool("Ruler")
def ruler(what: str) -> str:
    """Measures what it is told."""
    return f"{what}: 330 m"


def measure(tools: Any) -> list[dict[str, Any]]:
    function = {"name": tools[0]["function"]["name"], "arguments": '{"what": "tower"}'}
    return [{"id": "1", "type": "function", "function": function}]


CALLED: list[str] = []


def called(done: Any) -> None:
    """Be a callback, which CrewAI wants in a module."""
    CALLED.append(type(done).__name__)


def crew_called(done: Any) -> None:
    CALLED.append("crew")


def test_the_planner_is_told_of_roles_goals_backstories_and_tools() -> None:
    CALLED.clear()
    scene = Scene()
    scene.finder.tools = [ruler]  # an agent without tools has no steps that CrewAI would tell of
    scene.crew(scene.task(callback=called), task_callback=crew_called, step_callback=called).kickoff()
    assert len(CALLED) == 4
    assert CALLED[2:] == ["TaskOutput", "crew"]
    told = scene.sent[0]
    assert "Worker 0: Finder. Find facts. Knows archives. Tool Ruler: Measures what it is told." in told
    assert "Worker 1: Writer. Write. Was a clerk." in told


def _extra(kind: str, llm: LLM, url: str) -> Worker:
    inner = Agent(role="Inner", goal="Look.", backstory="Old hand.", llm=llm)
    match kind:
        case "crew":
            task = Task(description="{asked}", expected_output="an answer", agent=inner)
            return as_worker(Crew(name="bureau", agents=[inner], tasks=[task]))
        case "chat":
            return ChatWorker("m", endpoint=Endpoint(url))
        case _:
            return Conductor(FixedPlanner(Plan((Step(0, "look"),))), [as_worker(llm)])


@pytest.mark.parametrize(("kind", "answer"), [("crew", ""), ("chat", "fine"), ("conductor", "fine")])
def test_the_crews_metrics_count_every_call(kind: str, answer: str) -> None:
    """Of workers beside the crew and of a planner of Podium's, too; also if the answer cannot be used."""

    def reply(call: Call) -> Reply:
        return says(call, plan if is_planning(call) else answer if "look" in str(call.body) else "written")

    plan = '{"worker": 1, "subtask": "look", "access": []}\n{"worker": 0, "subtask": "join", "access": [0]}\n'
    with ChatServer(reply).in_thread() as server:
        llm = LLM(model="openai/gpt-4o-mini", base_url=server.url, api_key="k")
        workers, planner = [_extra(kind, llm, server.url)], ChatPlanner(as_worker(llm))
        manager = ConductorManager(workers=workers, planner=planner, retry=Retry(attempts=1))
        agent = Agent(role="Writer", goal="Write.", backstory="Was a clerk.", llm=llm)
        crew = Scene.crew_of(manager, [agent], [Scene.task()])
        with nullcontext() if answer else pytest.raises(RunFailed):
            crew.kickoff()
        told = crew.calculate_usage_metrics().total_tokens
    assert told == manager.results[0].usage.total_tokens == USAGE["total_tokens"] * len(server.calls)


@pytest.mark.long
@pytest.mark.anyio
async def test_every_way_to_kick_a_crew_off_works() -> None:
    """Inputs are put into tasks and roles, also where the crew was copied or has run before."""
    scene = Scene()
    scene.finder.role = "Finder of the {thing}"
    crew = scene.crew(scene.task("Describe the {thing}."))
    tower: Any = {"thing": "tower"}
    crew.kickoff({"thing": "tree"})  # inside a running loop, where a crew of agents alone raises
    outputs: list[Any] = [
        crew.kickoff(tower),
        await crew.kickoff_async(tower),
        crew.kickoff_for_each([tower])[0],
        *(await crew.akickoff_for_each([tower, tower])),
    ]
    assert {output.raw for output in outputs} == {'{"height": 330, "words": "of iron"}'}
    workers = [result.workers for result in scene.manager.results]
    assert workers == [("Finder of the tree", "Writer"), *[("Finder of the tower", "Writer")] * 5]


def test_a_task_is_shown_the_tasks_before_it() -> None:
    scene = Scene()
    first = scene.task("Describe the tower.")
    second = scene.task("Sum it up.", context=[first])
    scene.crew(first, second).kickoff()
    planned = [shown for shown in scene.sent if "You are the conductor" in shown]
    assert len(planned) == 2
    assert "of iron" not in planned[0]
    assert '{"height": 330, "words": "of iron"}' in planned[1]


@pytest.mark.parametrize("kind", ["output_pydantic", "output_json"])
def test_an_answer_has_the_form_its_task_wants(kind: str) -> None:
    """The worker of the last step is told the form, and no other; no call is made to convert it."""
    scene = Scene()
    output = scene.crew(scene.task(**{kind: Finding})).kickoff()
    if kind == "output_pydantic":
        assert output.pydantic == Finding(height=330, words="of iron")
    else:
        assert output.json_dict == {"height": 330, "words": "of iron"}
    steps = [shown for shown in scene.sent if "Your part:" in shown]
    assert [shown for shown in steps if '"height"' in shown] == [steps[-1]]
    assert len(scene.sent) == 4


def test_tasks_in_the_same_words_keep_their_agents() -> None:
    """Also at a second kickoff, when CrewAI has forgotten whom each names; in a journal they are two runs."""
    scene = Scene(journal=MemoryJournal(), run_id="order")
    tasks = [scene.task(agent=agent, async_execution=True) for agent in (scene.finder, scene.writer)]
    crew = scene.crew(*tasks, scene.task("Sum up."))
    for _ in range(2):
        crew.kickoff()
    lasts = {result.run_id: result.outcomes[-1].worker for result in scene.manager.results}
    assert sorted(lasts.values()) == ["Finder", "Writer", "Writer"]
    assert len(scene.sent) == 12


def test_an_answer_in_another_form_is_mended_by_the_llm() -> None:
    """As CrewAI does; without an LLM it is an error that says what is wrong."""

    def say(shown: str, tools: Any) -> str:
        return '{"height": 7}' if "Your part" not in shown else "seven metres"

    scene = Scene(say)
    output = scene.crew(scene.task(output_pydantic=Finding)).kickoff()
    assert output.pydantic == Finding(height=7)
    assert output.token_usage.total_tokens == 242 * len(scene.sent)
    planner = FixedPlanner(Plan((Step(0, "find"),)))
    bare = Scene(say, planner=planner)
    with pytest.raises(RunFailed, match=r"not a valid Finding: .*give the manager an llm"):
        bare.crew(bare.task(output_pydantic=Finding)).kickoff()


def test_the_tools_of_a_task_reach_the_agent_it_names_alone() -> None:
    def offered(**named: Any) -> list[bool]:
        found: list[bool] = []

        def say(shown: str, tools: Any) -> str:
            found.append(bool(tools))
            return Scene.answer(shown, tools)

        scene = Scene(say)
        scene.crew(scene.task(tools=[ruler], **{k: getattr(scene, v) for k, v in named.items()})).kickoff()
        return sorted(found)

    assert offered() == [True, True, True]
    assert offered(agent="writer") == [False, False, True]


def test_an_llm_may_be_given_tools() -> None:
    """It calls them within its step, in the pool of any conductor; an agent has its own."""

    def say(shown: str, tools: Any) -> Any:
        return "It is 330 m high." if "330 m" in shown else measure(tools)

    model = as_worker(SpeakingLLM(model="speaking", say=say), name="model", tools=[ruler])
    conductor = Conductor(FixedPlanner(Plan((Step(0, "measure the tower"),))), [model])
    assert conductor.run_sync("How high?").answer == "It is 330 m high."
    assert model.acts
    with pytest.raises(ConfigError, match="to the agent itself"):
        as_worker(Scene().finder, tools=[ruler])


def test_a_crew_streams() -> None:
    scene = Scene()
    stream = scene.crew(scene.task(output_pydantic=Finding), stream=True).kickoff()
    chunks = [(chunk.agent_role, chunk.content) for chunk in stream]
    assert "".join(text for role, text in chunks if role == "Writer") == '{"height": 330, "words": "of iron"}'
    assert Finding.model_validate_json(stream.result.raw) == Finding(height=330, words="of iron")


@pytest.mark.anyio
async def test_a_run_that_was_broken_off_goes_on_at_the_next_kickoff() -> None:
    """What was paid for is not paid for again; nor is a task that was done."""
    journal, reached, leave = MemoryJournal(), threading.Event(), threading.Event()

    def say(shown: str, tools: Any) -> str:
        if "Your part:\nwrite it down" in shown and not leave.is_set():
            reached.set()
            leave.wait(20)
        return Scene.answer(shown, tools)

    scene = Scene(say, journal=journal, run_id="order-17")
    kickoff = asyncio.create_task(scene.crew().akickoff())
    assert await asyncio.to_thread(reached.wait, 20)
    kickoff.cancel()
    with pytest.raises(asyncio.CancelledError):
        await kickoff
    leave.set()
    before = len(scene.sent)
    for _ in range(2):
        assert (await scene.crew().akickoff()).raw.startswith('{"height": 330')
    assert [shown for shown in scene.sent[before:] if "Your part:\nwrite it down" not in shown] == []
    assert len(scene.sent) == before + 1


def test_an_llm_is_the_fallback_planner() -> None:
    llm = SpeakingLLM(model="second", say=lambda shown, tools: PLAN)
    scene = Scene(planner=FixedPlanner("no plan"), fallback_planner=llm)
    scene.crew().kickoff()
    (result,) = scene.manager.results
    assert result.status == "partial"
    assert result.planner is not None
    assert result.planner.is_fallback
    with pytest.raises(ConfigError, match="7 cannot plan: give an LLM"):
        ConductorManager(llm=llm, fallback_planner=7)


@pytest.mark.anyio
async def test_after_a_cancel_no_model_is_called_any_more() -> None:
    """The call that is under way goes on in its thread; neither its agent nor a later step calls again."""
    reached, leave = threading.Event(), threading.Event()

    def say(shown: str, tools: Any) -> Any:
        reached.set()
        leave.wait(20)
        return measure(tools)

    scene = Scene(say)
    scene.finder.tools = [ruler]
    kickoff = asyncio.create_task(scene.crew().akickoff())
    assert await asyncio.to_thread(reached.wait, 20)
    kickoff.cancel()
    with pytest.raises(asyncio.CancelledError):
        await kickoff
    before = len(scene.sent)
    leave.set()
    await asyncio.sleep(0.1)
    assert len(scene.sent) == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "ConductorManager has no planner: give planner="),
        (
            {"planner": FixedPlanner("x"), "conductor": Conductor(FixedPlanner("x"), [Calculator()])},
            "its own",
        ),
        ({"planner": 7}, "7 cannot plan"),
        ({"planner": FixedPlanner("x"), "run_id": "order"}, "run_id='order' names runs in a journal"),
    ],
)
def test_what_a_manager_cannot_do_is_said_at_once(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ConductorManager(**options)


def test_the_options_of_a_conductor_are_a_managers() -> None:
    """Also those that change the prompt of the planner, and those that CrewAI has under the same name."""
    saved = SavedPlan(
        name="measure-it", steps=({"worker": "Finder", "subtask": "find the height", "access": []},)
    )
    scene = Scene(workflows=True, plans=[saved], cache="run", direct=False, warm_prefix=True)
    assert scene.crew().kickoff().raw == '{"height": 330, "words": "of iron"}'
    assert '"each"' in scene.sent[0]
    assert "measure-it" in scene.sent[0]


def test_a_role_names_one_agent() -> None:
    """Else a card or a value of `acts` would have no effect, or be for another agent, too."""
    with pytest.raises(ConfigError, match="'Painter', which no agent has"):
        Scene(acts={"Painter": True}).crew().kickoff()
    scene = Scene(cards={"Painter": Card(name="Painter")})
    painters = [Agent(role="Painter", goal="Paint.", backstory="b", llm=scene.llm) for _ in range(2)]
    with pytest.raises(ConfigError, match="'Painter', which 2 agents have"):
        scene.crew_of(scene.manager, painters, [scene.task()]).kickoff()


def test_a_crew_under_a_conductor_is_a_worker() -> None:
    inner, outer = Scene(), Scene(planner=FixedPlanner(Plan((Step(2, "describe the tower"),))))
    worker = as_worker(inner.crew(inner.task("Do: {part}")), name="inner")
    outer.manager.workers = [worker]
    output = outer.crew().kickoff()
    assert output.raw.startswith('{"height": 330')
    assert outer.manager.results[0].outcomes[0].usage.total_tokens == 968
    assert output.token_usage.total_tokens == 968


def test_a_copied_task_is_not_paid_for_twice() -> None:
    """`kickoff_for_each` copies tasks, and a copy has lost the text before its inputs."""
    scene = Scene(journal=MemoryJournal(), run_id="towers")
    crew = scene.crew(scene.task("Describe the {what}."))
    crew.kickoff({"what": "tower"})
    paid = len(scene.sent)
    crew.kickoff_for_each([{"what": "tower"}])
    assert len(scene.sent) == paid


def test_an_agent_outside_the_crew_is_an_error() -> None:
    scene = Scene()
    other = Agent(role="Poet", goal="Write.", backstory="b", llm=scene.llm)
    with pytest.raises(ConfigError, match="'Poet', which the crew does not have"):
        scene.crew(scene.task(agent=other)).kickoff()
    poets = [Agent(role="Poet", goal="Write.", backstory="b", llm=scene.llm) for _ in range(2)]
    with pytest.raises(ConfigError, match="'Poet', which 2 agents of the crew have"):
        scene.crew_of(scene.manager, poets, [scene.task(agent=other)]).kickoff()


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
