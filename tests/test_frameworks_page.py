"""The page `docs/frameworks.md`: what its table says is tested; and the length of the pages of frameworks."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/frameworks.md").read_text()
AGENTS = "packages/openai-agents/tests"
TESTS: dict[str, dict[str, tuple[str, ...]]] = {
    "LangChain": {
        "state and stream": (
            "tests/langchain/test_runnable_traces.py::test_astream_events_shows_tokens_steps_and_events",
            "tests/langchain/test_runnable_traces.py::test_events_of_the_run_are_custom_events_in_order",
        ),
        "people": (
            "tests/langchain/test_runnable.py::test_a_run_that_waits_for_approval_has_no_answer",
            "tests/langchain/test_waiting.py::test_a_plan_may_wait_and_go_on_later",
        ),
        "a run is named by": (
            "tests/langchain/test_runnable.py::test_the_journal_calls_a_run_what_langchain_calls_it",
            "tests/langchain/test_chat_model.py::test_the_run_is_called_in_the_journal_what_langchain_calls_it",
        ),
        "tools within a step": ("tests/langchain/test_workers.py::test_an_agent_streams_what_it_writes",),
        "images": (
            "tests/langchain/test_workers.py::test_cards_are_derived_from_what_a_thing_is",
            "tests/langchain/test_messages.py::test_images_go_to_workers_that_can_see_them",
        ),
        "cancel": (
            "tests/langchain/test_runnable_traces.py::test_a_cancel_closes_the_workers_sockets_and_starts_nothing",
            "tests/langchain/test_runnable_traces.py::test_leaving_a_stream_closes_the_sockets",
        ),
        "usage": ("tests/langchain/test_chat_model_runs.py::test_tokens_are_counted_once",),
    },
    "LangGraph": {
        "state and stream": (
            "tests/langchain/graph/test_node.py::test_tokens_of_chat_models_are_in_the_stream_of_messages",
            "tests/langchain/graph/test_node.py::test_events_and_the_plan_as_mermaid_are_in_the_custom_stream",
            "tests/langchain/graph/test_steps.py::test_every_step_is_a_node_seen_in_updates",
            "tests/langchain/graph/test_steps.py::test_every_step_is_seen_in_the_events_of_langchain",
        ),
        "people": (
            "tests/langchain/graph/test_approval.py::test_a_plan_is_approved_in_another_process",
            "tests/langchain/graph/test_executors.py::test_plans",
            "tests/langchain/graph/test_steps.py::test_two_interrupts_side_by_side_are_answered_by_their_ids",
        ),
        "a run is named by": (
            "tests/langchain/graph/test_node.py::test_with_a_journal_a_run_that_failed_goes_on_and_pays_nothing_twice",
            "tests/langchain/graph/test_steps.py::test_without_a_journal_what_the_checkpointer_kept_is_not_paid_again",
        ),
        "tools within a step": (
            "tests/langchain/graph/test_injected_tools.py::test_a_tool_is_given_what_toolnode_gives_it",
        ),
        "images": ("tests/langchain/test_messages.py::test_images_go_to_workers_that_can_see_them",),
        "different here": (
            "tests/langchain/graph/test_states.py::test_an_outcome_is_edited",
            "tests/langchain/graph/test_states.py::test_a_run_that_has_ended_is_forked",
        ),
        "cancel": (
            "tests/langchain/graph/test_steps.py::test_a_cancel_stops_the_workers",
            "tests/langchain/graph/test_steps.py::test_a_slow_worker_ends_with_the_runs_time",
        ),
        "usage": ("tests/langchain/graph/test_node.py::test_usage_is_in_the_state_and_counted_once",),
    },
    "LlamaIndex": {
        "state and stream": (
            "tests/llamaindex/test_contract.py::TestQueryEngine::test_pieces_are_streamed_with_their_step",
            "tests/llamaindex/test_query_engine.py::test_streams_the_answer_with_the_nodes_it_is_made_of",
        ),
        "people": (
            "tests/llamaindex/test_conductor_workflow.py::test_a_person_approves_what_waits",
            "tests/llamaindex/test_conductor_workflow.py::test_a_worker_asks_by_its_own_events",
        ),
        "a run is named by": (
            "tests/llamaindex/test_waiting.py::test_a_query_goes_on_from_the_journal",
            "tests/llamaindex/test_conductor_workflow.py::test_a_killed_process_is_continued_by_the_same_call",
        ),
        "tools within a step": (
            "tests/llamaindex/test_agents.py::test_a_model_uses_its_tools_within_its_step",
        ),
        "images": ("tests/llamaindex/test_llm.py::test_images_go_to_models_that_can_see_them",),
        "cancel": (
            "tests/llamaindex/test_over_http.py::test_a_cancel_closes_the_request",
            "tests/llamaindex/test_blocking.py::test_a_cancel_leaves_a_thread_behind_and_comes_back_at_once",
        ),
        "usage": (
            "tests/llamaindex/test_contract.py::TestQueryEngine::test_the_bill_of_each_step_is_right",
            "tests/llamaindex/test_llm.py::test_a_response_holds_what_the_run_came_to",
        ),
    },
    "CrewAI": {
        "state and stream": (
            "tests/crewai/test_manager.py::test_a_crew_streams",
            "tests/crewai/test_contract.py::TestCrewAI::test_pieces_are_streamed_with_their_step",
        ),
        "people": (
            "tests/crewai/test_waiting.py::test_a_plan_may_wait_and_go_on_later",
            "tests/crewai/test_waiting.py::test_an_action_waits_for_a_person",
            "tests/crewai/test_waiting.py::test_a_task_is_done_again_with_a_persons_feedback",
        ),
        "a run is named by": (
            "tests/crewai/test_manager.py::test_a_run_that_was_broken_off_goes_on_at_the_next_kickoff",
            "tests/crewai/test_llm.py::test_the_same_call_continues_its_run",
        ),
        "tools within a step": ("tests/crewai/test_manager.py::test_an_llm_may_be_given_tools",),
        "images": ("tests/crewai/test_llm.py::test_images_go_to_workers_that_can_see_them",),
        "cancel": ("tests/crewai/test_manager.py::test_after_a_cancel_no_model_is_called_any_more",),
        "usage": (
            "tests/crewai/test_manager.py::test_the_crews_metrics_count_every_call",
            "tests/crewai/test_contract.py::TestCrewAI::test_the_bill_of_each_step_is_right",
        ),
    },
    "AutoGen": {
        "state and stream": (
            "tests/autogen/test_contract.py::TestAutoGen::test_pieces_are_streamed_with_their_step",
            "tests/autogen/test_agent.py::test_its_state_is_saved_and_loaded",
        ),
        "people": (
            "tests/autogen/test_waiting.py::test_a_run_of_autogen_asks_the_user_by_handoffs",
            "tests/autogen/test_humans.py::test_a_human_is_shown_what_the_step_is_about",
        ),
        "a run is named by": (
            "tests/autogen/test_run_ids.py::test_the_same_call_continues_its_run",
            "tests/autogen/test_waiting.py::test_a_session_continues_what_broke_off",
        ),
        "tools within a step": (
            "tests/autogen/test_run_ids.py::test_a_model_client_calls_tools_within_its_step",
        ),
        "images": ("tests/autogen/test_agent.py::test_images_reach_workers_that_take_them",),
        "cancel": (
            "tests/autogen/test_agent.py::test_a_token_cancels_the_run_and_its_requests",
            "tests/autogen/test_agent.py::test_a_cancel_reaches_the_agents_token",
        ),
        "usage": ("tests/autogen/test_agent.py::test_usage_adds_up",),
    },
    "Agent Framework": {
        "state and stream": (
            "tests/autogen/test_agent_framework.py::test_it_streams_the_answer",
            "tests/autogen/test_agent_framework.py::test_sessions_remember",
        ),
        "people": (
            "tests/autogen/test_waiting.py::test_a_run_of_agent_framework_asks_with_its_requests",
            "tests/autogen/test_waiting.py::test_a_workflow_asks_with_request_info",
        ),
        "a run is named by": (
            "tests/autogen/test_run_ids.py::test_the_same_call_continues_its_run",
            "tests/autogen/test_waiting.py::test_a_session_continues_what_broke_off",
        ),
        "tools within a step": (
            "tests/autogen/test_run_ids.py::test_a_chat_client_calls_tools_within_its_step",
        ),
        "images": (
            "tests/autogen/test_agent_framework_client.py::test_images_reach_a_worker_that_takes_them",
        ),
        "cancel": (
            "tests/autogen/test_contract.py::TestAgentFramework::test_a_cancel_reaches_the_worker",
            "tests/autogen/test_agent_framework.py::test_leaving_a_stream_cancels_the_run",
        ),
        "usage": ("tests/autogen/test_contract.py::TestAgentFramework::test_the_bill_of_each_step_is_right",),
    },
    "OpenAI Agents SDK": {
        "state and stream": (
            f"{AGENTS}/test_model.py::test_it_streams_the_answer_in_the_events_of_the_responses_api",
            f"{AGENTS}/test_model.py::test_streamed_steps_are_a_reasoning_summary",
            f"{AGENTS}/test_model.py::test_a_session_remembers_and_its_calls_go_on_from_it",
        ),
        "people": (
            f"{AGENTS}/test_approvals.py::test_a_plan_is_approved",
            f"{AGENTS}/test_approvals.py::test_an_action_is_approved_or_refused",
            f"{AGENTS}/test_approvals.py::test_a_question_is_answered",
            f"{AGENTS}/test_approvals.py::test_each_decision_in_a_process_that_was_killed",
        ),
        "a run is named by": (
            f"{AGENTS}/test_model.py::test_a_question_asked_again_continues_its_run",
            f"{AGENTS}/test_model.py::test_options_of_a_run_are_in_the_settings",
        ),
        "tools within a step": (
            f"{AGENTS}/test_workers.py::test_a_model_with_tools_calls_them_within_its_step",
        ),
        "images": (f"{AGENTS}/test_model.py::test_images_reach_the_steps_that_can_see_them",),
        "cancel": (
            f"{AGENTS}/test_model.py::test_cancelling_a_stream_closes_the_requests",
            f"{AGENTS}/test_contract.py::TestAgent::test_a_cancel_reaches_the_worker",
        ),
        "usage": (
            f"{AGENTS}/test_model.py::test_an_agent_answers_and_tells_of_the_run",
            f"{AGENTS}/test_contract.py::TestAgent::test_the_bill_of_each_step_is_right",
        ),
    },
}
"""The tests of what the table says of each framework, by its columns, and of what the text below it says."""
CONTRACT = ROOT / "tests/contracts/adapter_contract.py"
MOST_WORDS = {
    "autogen": 2000,
    "crewai": 1200,
    "frameworks": 2600,
    "langchain": 1200,
    "langgraph": 1200,
    "llamaindex": 1200,
    "openai-agents": 1200,
}


def cells(line: str) -> list[str]:
    """Return the cells of a table's line."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def table() -> list[list[str]]:
    """Return the lines of the table of frameworks, the first being its head."""
    lines = PAGE.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| | the conductor is"))
    rows = [cells(lines[head])]
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


@cache
def parsed(path: Path) -> ast.Module:
    """Return a file's code, without running it."""
    return ast.parse(path.read_text())


def named_in(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names of the tests among these statements."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def class_in(path: Path, name: str) -> ast.ClassDef | None:
    """Return a file's class of that name."""
    found = (node for node in parsed(path).body if isinstance(node, ast.ClassDef) and node.name == name)
    return next(found, None)


def lacks(node: ast.ClassDef) -> set[str]:
    """Return what a class says in `lacks` that its host makes impossible."""
    for line in node.body:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == "lacks" for target in targets):
            value = getattr(line, "value", None)
            assert isinstance(value, ast.Dict), "lacks is not a plain dict"
            return {key.value for key in value.keys if isinstance(key, ast.Constant)}  # type: ignore[misc]
    return set()


def is_there(name: str) -> bool:
    """Say whether a test is collected under this name, its own or the contract's."""
    file, *within = name.split("::")
    path = ROOT / file
    if not path.is_file() or not path.name.startswith("test_") or not within:
        return False
    if len(within) == 1:
        return within[0] in named_in(parsed(path).body)
    node = class_in(path, within[0])
    if node is None or not node.name.startswith("Test"):
        return False
    contract = class_in(CONTRACT, "AdapterContract")
    assert contract is not None
    keeps = any(isinstance(base, ast.Name) and base.id == contract.name for base in node.bases)
    inherited = set(named_in(contract.body)) - lacks(node) if keeps else set()
    return within[1] in {*named_in(node.body), *inherited}


def test_the_table_has_all_frameworks() -> None:
    """And no cell is left out."""
    head, *rows = table()
    assert tuple(row[0] for row in rows) == tuple(TESTS)
    assert all(cell for row in rows for cell in row)
    assert {len(row) for row in rows} == {len(head)}


@pytest.mark.parametrize("host", TESTS)
def test_what_is_said_of_a_framework_is_tested(host: str) -> None:
    """In each column but the names of classes and the last, which sums up."""
    _, _, *columns, _ = table()[0]
    assert {*columns, "cancel", "usage"} <= TESTS[host].keys()
    assert [name for names in TESTS[host].values() for name in names if not is_there(name)] == []


@pytest.mark.parametrize("page", MOST_WORDS)
def test_a_page_is_short(page: str) -> None:
    """Blocks of code are counted, too."""
    assert len((ROOT / f"docs/{page}.md").read_text().split()) <= MOST_WORDS[page]


def test_what_a_host_cannot_do_is_no_test_that_is_there() -> None:
    """Nor is a class, a method of something else or a file that is not there."""
    contract = "tests/crewai/test_contract.py::TestCrewAI"
    assert is_there(f"{contract}::test_limits_hold")
    assert not is_there(f"{contract}::test_a_cancel_reaches_the_worker")
    assert not is_there(f"{contract}::test_nothing_of_the_kind")
    assert not is_there("tests/crewai/test_contract.py::test_limits_hold")
    assert not is_there("tests/contracts/adapter_contract.py::AdapterContract::test_limits_hold")
    assert not is_there("tests/nowhere/test_contract.py::test_limits_hold")


def test_the_versions_are_those_of_the_packages() -> None:
    """As each package's own project file has them."""
    rows = [cells(line) for line in PAGE.splitlines() if re.match(r"\| `[\w-]+-podium", line)]
    told = {(row[0].strip("`"), need.strip("` ")) for row in rows for need in row[2].split(", ")}
    needed: set[tuple[str, str]] = set()
    for file in sorted((ROOT / "packages").glob("*/pyproject.toml")):
        project = tomllib.loads(file.read_text())["project"]
        if not project["name"].endswith("-podium"):
            continue
        needed |= {(project["name"], each) for each in project["dependencies"]}
        for extra, dependencies in project.get("optional-dependencies", {}).items():
            needed |= {(f"{project['name']}[{extra}]", each) for each in dependencies}
    assert told <= needed
    assert {package for package, _ in told} == {package for package, _ in needed}


def test_its_links_lead_somewhere() -> None:
    """Files that are there."""
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", PAGE)]
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_the_readme_is_short() -> None:
    """Under a hundred lines, with one example; it links the page of each framework."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) < 100
    assert readme.count("```python") == 1
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", readme)]
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
    pages = re.findall(r"\]\((\w[\w-]*\.md)\) \|$", PAGE, re.MULTILINE)
    assert len(pages) > 5
    assert {f"docs/{page}" for page in pages} <= set(links) | {"docs/shadow.md"}
