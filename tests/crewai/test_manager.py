"""A crew under a conductor: what CrewAI promises of a crew holds, and what Podium promises of a run."""

import asyncio
import io
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from crewai import LLM, Agent, Crew, Task
from crewai.events.event_listener import event_listener
from crewai.mcp import MCPServerHTTP
from crewai.state.checkpoint_config import CheckpointConfig
from crewai.tools import tool
from rich.console import Console
from servers.capable import is_planning
from servers.chat_server import USAGE, Call, ChatServer, Reply, says
from servers.crew_scene import PLAN, Finding, Scene
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager, as_worker
from podium import Conductor, Limits, Plan, Retry, ScriptedWorker, Step
from podium.errors import AnswerCut, AnswerRefused, ConfigError, RunFailed
from podium.hosts import tool_call
from podium.journal import MemoryJournal
from podium.plan_text.saved import SavedPlan
from podium.planners import ChatPlanner, FixedPlanner
from podium.workers import Calculator, Card, ChatWorker, Endpoint, Worker

FIXED = FixedPlanner("x")


def test_a_task_is_planned_once_and_done_by_the_agents() -> None:
    """One call to plan, one for each step; the crew's metrics and the steps' bills tell of just these."""
    scene = Scene()
    output = scene.crew().kickoff()
    assert (output.raw, len(scene.sent)) == ('{"height": 330, "words": "of iron"}', 4)
    (result,) = scene.manager.results
    assert {(o.status, o.usage.total_tokens) for o in result.outcomes} == {("ok", 242)}
    assert [outcome.worker for outcome in result.outcomes] == ["Finder", "Finder", "Writer"]
    assert (output.token_usage.total_tokens, output.token_usage.successful_requests) == (968, 4)
    assert output.tasks_output[0].agent == "Conductor"
    assert output.tasks_output[0].messages[-1]["content"] == output.raw


@tool("Ruler")
def ruler(what: str) -> str:
    """Measures what it is told."""
    return f"{what}: 330 m"


def measure(tools: Any) -> list[dict[str, Any]]:
    return [tool_call("1", tools[0]["function"]["name"], '{"what": "tower"}')]


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
    assert (len(CALLED), CALLED[2:]) == (4, ["TaskOutput", "crew"])
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
    outputs: list[Any] = [crew.kickoff(tower), await crew.kickoff_async(tower)]
    outputs += [*crew.kickoff_for_each([tower]), *(await crew.akickoff_for_each([tower, tower]))]
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
    form = Finding(height=330, words="of iron")
    assert (output.pydantic or Finding(**output.json_dict)) == form
    assert (output.pydantic is None) == (kind == "output_json")
    steps = [shown for shown in scene.sent if "Your part:" in shown]
    assert ([shown for shown in steps if '"height"' in shown], len(scene.sent)) == ([steps[-1]], 4)


def test_tasks_in_the_same_words_keep_their_agents() -> None:
    """Also at a second kickoff, when CrewAI has forgotten whom each names; in a journal they are two runs."""
    scene = Scene(journal=MemoryJournal(), run_id="order")
    tasks = [scene.task(agent=agent, async_execution=True) for agent in (scene.finder, scene.writer)]
    crew = scene.crew(*tasks, scene.task("Sum up."))
    for _ in range(2):
        crew.kickoff()
    lasts = {result.run_id: result.outcomes[-1].worker for result in scene.manager.results}
    assert (sorted(lasts.values()), len(scene.sent)) == (["Finder", "Writer", "Writer"], 12)


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

    assert (offered(), offered(agent="writer")) == ([True, True, True], [False, False, True])


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
    assert (result.status, result.planner.is_fallback) == ("partial", True)
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
        ({"planner": FIXED, "conductor": Conductor(FIXED, [Calculator()])}, "its own"),
        ({"planner": 7}, "7 cannot plan"),
        ({"planner": FIXED, "run_id": "order"}, "run_id='order' names runs in a journal"),
    ],
)
def test_what_a_manager_cannot_do_is_said_at_once(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ConductorManager(**options)


def test_the_options_of_a_conductor_are_a_managers() -> None:
    """Also those that change the prompt of the planner, and those that CrewAI has under the same name."""
    step = {"worker": "Finder", "subtask": "find the height", "access": []}
    saved = SavedPlan(name="measure-it", steps=(step,))
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


@pytest.mark.parametrize(("finish", "error"), [("length", AnswerCut), ("content_filter", AnswerRefused)])
def test_an_answer_that_cannot_be_parsed_is_told_by_its_end(finish: str, error: Any) -> None:
    """The step is not tried again, and the tokens that the server reported are on the bill."""
    manager = ConductorManager(planner=FixedPlanner(Plan((Step(0, "find"),))))
    with ChatServer(lambda call: says(call, '{"height": 3', finish_reason=finish)).in_thread() as server:
        llm = LLM(model="openai/m", base_url=server.url, api_key="none", max_retries=0)
        agent = Agent(role="Finder", goal="Find.", backstory="New here.", llm=llm, max_retry_limit=0)
        crew = Scene.crew_of(manager, [agent], [Scene.task("How high?", output_pydantic=Finding)])
        with pytest.raises(RunFailed):
            crew.kickoff()
        (outcome,) = manager.results[-1].outcomes
        assert (outcome.status, outcome.problem.code, len(server.calls)) == ("failed", error.code, 1)
        if finish == "length":
            assert (outcome.usage.total_tokens, outcome.usage.estimated) == (218, False)


def test_a_partial_answer_is_never_mended_into_a_typed_one() -> None:
    """CrewAI's converter would invent what a failed step did not find out."""

    def say(shown: str, tools: Any) -> str:
        if "Your part:" not in shown:
            return '{"height": 3, "words": "T"}'
        if "find the height" in shown.partition("Your part:")[2]:
            raise ValueError("the archive is closed")
        return "It could not be found out."

    scene = Scene(say, planner=FixedPlanner(PLAN.strip()), retry=Retry(attempts=1))
    scene.manager.llm = scene.llm
    with pytest.raises(RunFailed, match=r"is partial .*the archive is closed") as caught:
        scene.crew(scene.task(output_pydantic=Finding)).kickoff()
    assert caught.value.result.status == "partial"
    assert not any("Your part:" not in shown for shown in scene.sent)


def test_a_crew_that_is_trained_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # CrewAI writes files there
    scene = Scene()
    with pytest.raises(ConfigError, match="cannot be trained"):
        scene.crew().train(n_iterations=1, filename="trained.pkl")
    assert scene.sent == []


def test_a_manager_is_not_restored_from_a_checkpoint(tmp_path: Path) -> None:
    """CrewAI would make a plain agent of it, without limits: neither is one written, nor is one read."""
    scene = Scene()
    crew = scene.crew(checkpoint=CheckpointConfig(location=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"Crew\.checkpoint is set, but CrewAI restores"):
        crew.kickoff()
    assert scene.sent == []
    with pytest.raises(ValueError, match="restores a ConductorManager as a plain agent"):
        Agent.model_validate(scene.manager.model_dump(mode="json"))


@pytest.mark.anyio
@pytest.mark.parametrize(("wrapped", "calls", "made"), [("agent", 7, 7), ("crew", 6, 0)])
async def test_the_outer_limits_hold_inside_an_object_of_crewai(wrapped: str, calls: int, made: int) -> None:
    """Its calls count in the run around it; a plan that needs more calls than are left does not start."""
    called: list[str] = []

    def say(shown: str, tools: Any) -> str:
        called.append(shown)
        return "done"

    llm = SpeakingLLM(model="speaking", say=say)
    parts = tuple(Step(0, f"part {part}") for part in range(6))
    inner = FixedPlanner(Plan((*parts, Step(0, "join", tuple(range(6))))))
    conducted = ConductorLLM(Conductor(inner, [as_worker(llm)]))
    thing: Any = Agent(role="Guide", goal="a", backstory="b", llm=conducted)
    if wrapped == "crew":
        agents = [Agent(role="Clerk", goal="a", backstory="b", llm=llm)]
        thing = Scene.crew_of(ConductorManager(planner=inner), agents, [Scene.task("{asked}")])
    outer, options = FixedPlanner(Plan((Step(0, "all of it"),))), {"retry": Retry(attempts=1)}
    conductor = Conductor(outer, [as_worker(thing, name="inside")], limits=Limits(calls=calls), **options)
    result = await conductor.run("?")
    assert (len(called), result.status) == (made, "ok" if made else "failed")
    assert ("Limits.calls" in result.explain()) is not bool(made)


@pytest.mark.anyio
async def test_an_agent_without_the_tools_of_its_mcp_server_does_not_guess() -> None:
    llm = SpeakingLLM(model="speaking", say=lambda shown, tools: "about 300 m, I think")
    gone = MCPServerHTTP(url="http://127.0.0.1:9/mcp", streamable=True)
    agent = Agent(role="Clerk", goal="a", backstory="b", llm=llm, mcps=[gone])
    plan = FixedPlanner(Plan((Step(0, "How high is the tower?"),)))
    result = await Conductor(plan, [as_worker(agent)], retry=Retry(attempts=1)).run("?")
    assert (result.answer, result.status) == ("", "failed")


def heights(shown: str, tools: Any) -> str:
    """Answer a step; the archive of the heights is closed."""
    if "find the height" in shown.rpartition("Your part:")[2]:
        raise ValueError("the archive is closed")
    return f"answer to {'B' if 'Use what is known.' in shown else 'A'}"


def two_plans() -> ChatPlanner:
    """Return a planner that has the first task look for a height, and the second not."""
    second = '{"worker": 1, "subtask": "use it", "access": []}'
    return ChatPlanner(ScriptedWorker("plans", {"Use what is known.": second, "": PLAN.strip()}))


@pytest.mark.long
@pytest.mark.parametrize("context", ["all", "none"])
def test_a_task_built_on_a_partial_task_is_partial(context: str) -> None:
    scene = Scene(heights, planner=two_plans(), retry=Retry(attempts=1))
    first = scene.task("Describe the tower.", name="describe")
    shown = {} if context == "all" else {"context": []}
    output = scene.crew(first, scene.task("Use what is known.", **shown)).kickoff()
    one, two = scene.manager.results
    texts = [task.raw.partition("\n\n(Not complete: ") for task in output.tasks_output]
    assert [text for text, _, _ in texts] == ["answer to A", "answer to B"]
    assert [bool(lack) for _, _, lack in texts] == [True, context != "none"]
    assert (one.status, two.status) == ("partial", "ok" if context == "none" else "partial")
    if context == "none":
        assert two.problem is None
    else:
        assert two.problem.code == one.problem.code
        assert "the output of task 'describe' is partial" in two.problem.message


def test_a_crew_whose_run_is_partial_makes_the_step_around_it_partial() -> None:
    """Also where the run of a later task lacked nothing of its own."""
    scene = Scene(heights, planner=two_plans(), retry=Retry(attempts=1))
    inner = as_worker(scene.crew(scene.task("Do: {part}"), scene.task("Use what is known.")), name="inner")
    result = Conductor(FixedPlanner(Plan((Step(0, "describe the tower"),))), [inner]).run_sync("?")
    assert result.answer.startswith("answer to B\n\n(Not complete: ")
    assert (result.status, "the archive is closed" in result.problem.message) == ("partial", True)


def test_control_characters_of_plans_and_outputs_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """CrewAI's panels print tasks and outputs as they are; its agents here are Podium's conductors."""
    shown = io.StringIO()
    monkeypatch.setattr(event_listener.formatter, "console", Console(file=shown, width=100))
    plan = '{"worker": 0, "subtask": "find\\u001b[31m it", "access": []}'
    odd = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [ScriptedWorker("odd", "a\tb\x1b]0;pwned\x07\nc")])
    guide = Agent(role="Guide", goal="a", backstory="b", llm=ConductorLLM(odd))
    manager = ConductorManager(planner=FixedPlanner(plan))
    output = Scene.crew_of(manager, [guide], [Scene.task()], verbose=True).kickoff()
    assert output.raw == "a\tb\N{REPLACEMENT CHARACTER}]0;pwned\N{REPLACEMENT CHARACTER}\nc"
    assert "pwned" in shown.getvalue()
    assert not set(shown.getvalue()) & {"\x1b", "\x07"}
