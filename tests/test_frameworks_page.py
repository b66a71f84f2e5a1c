"""The page `docs/frameworks.md`: what its table says is tested; and the length of the pages of frameworks."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/frameworks.md").read_text()
TESTS: dict[str, tuple[str, dict[str, str]]] = {
    "LangChain": (
        "tests/langchain",
        {
            "state and stream": "test_contract.py::TestLangChain::test_pieces_are_streamed_with_their_step",
            "people": "test_waiting.py::test_a_plan_may_wait_and_go_on_later",
            "a run is named by": "test_runnable.py::test_a_recorded_run_that_failed_goes_on",
            "tools within a step": "test_workers.py::test_an_agent_streams_what_it_writes",
            "images": "test_runnable.py::test_images_go_to_workers_that_can_see_them",
            "cancel": "test_chat_model.py::test_cancelling_ainvoke",
            "usage": "test_chat_model.py::test_tokens_are_counted_once",
        },
    ),
    "LangGraph": (
        "tests/langchain",
        {
            "state and stream": (
                "graph/test_steps.py::test_a_step_starts_while_its_plan_is_written_and_is_called_once"
            ),
            "people": "graph/test_approval.py::test_a_plan_is_approved_in_another_process",
            "a run is named by": "graph/test_steps.py::test_a_failed_step_runs_again_when_the_graph_goes_on",
            "tools within a step": "graph/test_writes.py::test_a_tool_has_what_toolnode_gives",
            "images": "test_runnable.py::test_images_go_to_workers_that_can_see_them",
            "cancel": "test_contract.py::TestLangChain::test_a_cancel_reaches_the_worker",
            "usage": "test_contract.py::TestLangChain::test_the_bill_of_each_step_is_right",
        },
    ),
    "LlamaIndex": (
        "tests/llamaindex",
        {
            "state and stream": "test_contract.py::TestLlamaIndex::test_pieces_are_streamed_with_their_step",
            "people": "test_workflows.py::test_a_person_approves_what_waits",
            "a run is named by": "test_faces.py::test_a_named_run_is_one_run",
            "tools within a step": "test_agents.py::test_a_model_uses_its_tools_within_its_step",
            "images": "test_llm.py::test_images_go_to_models_that_can_see_them",
            "cancel": "test_sync.py::test_a_cancel_leaves_a_thread_behind_and_comes_back_at_once",
            "usage": "test_llm.py::test_a_response_holds_what_the_run_came_to",
        },
    ),
    "CrewAI": (
        "tests/crewai",
        {
            "state and stream": "test_manager.py::test_a_crew_streams",
            "people": "test_waiting.py::test_an_action_waits_for_a_person",
            "a run is named by": "test_llm.py::test_the_same_call_continues_its_run",
            "tools within a step": "test_manager.py::test_an_llm_may_be_given_tools",
            "images": "test_llm.py::test_images_go_to_workers_that_can_see_them",
            "cancel": "test_manager.py::test_after_a_cancel_no_model_is_called_any_more",
            "usage": "test_manager.py::test_the_crews_metrics_count_every_call",
        },
    ),
    "AutoGen": (
        "tests/autogen",
        {
            "state and stream": "test_agent.py::test_its_state_is_saved_and_loaded",
            "people": "test_waiting.py::test_runs_ask_the_user_by_handoffs",
            "a run is named by": "test_waiting.py::test_a_session_continues_what_broke_off",
            "tools within a step": "test_waiting.py::test_a_model_client_calls_tools_within_its_step",
            "images": "test_agent.py::test_images_reach_workers_that_take_them",
            "cancel": "test_agent.py::test_a_token_cancels_the_run_and_its_requests",
            "usage": "test_contract.py::TestAdapters::test_the_bill_of_each_step_is_right",
        },
    ),
    "Agent Framework": (
        "tests/autogen",
        {
            "state and stream": "test_agent_framework.py::test_sessions_remember",
            "people": "test_waiting.py::test_a_run_of_agent_framework_asks_with_its_requests",
            "a run is named by": "test_waiting.py::test_the_same_call_continues_its_run",
            "tools within a step": "test_waiting.py::test_a_chat_client_calls_tools_within_its_step",
            "images": "test_agent_framework.py::test_images_reach_a_worker_that_takes_them",
            "cancel": "test_agent_framework.py::test_leaving_a_stream_cancels_the_run",
            "usage": "test_contract.py::TestAdapters::test_the_bill_of_each_step_is_right",
        },
    ),
    "OpenAI Agents SDK": (
        "packages/openai-agents/tests",
        {
            "state and stream": "test_model.py::test_a_session_remembers_and_its_calls_go_on_from_it",
            "people": "test_approvals.py::test_an_action_is_approved_or_refused",
            "a run is named by": "test_model.py::test_a_question_asked_again_continues_its_run",
            "tools within a step": "test_workers.py::test_a_model_with_tools_calls_them_within_its_step",
            "images": "test_model.py::test_images_reach_the_steps_that_can_see_them",
            "cancel": "test_model.py::test_cancelling_a_stream_closes_the_requests",
            "usage": "test_model.py::test_an_agent_answers_and_tells_of_the_run",
        },
    ),
}
"""The folder of the tests of each framework, and a test of what each column of the table says."""
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


def named_in(tree: ast.Module | ast.ClassDef) -> set[str]:
    """Return the names of the tests in a file, or in a class with those of its contract that it can pass."""
    tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    if isinstance(tree, ast.ClassDef) and "AdapterContract" in map(ast.unparse, tree.bases):
        lacks = [ast.unparse(node) for node in tree.body if "lacks" in ast.unparse(node).partition("=")[0]]
        tests |= {name for name in named_in(class_in(CONTRACT, "AdapterContract")) if name not in str(lacks)}
    return {name for name in tests if name.startswith("test_")}


def class_in(path: Path, name: str) -> ast.ClassDef:
    (found,) = [node for node in parsed(path).body if isinstance(node, ast.ClassDef) and node.name == name]
    return found


def is_there(folder: str, name: str) -> bool:
    """Say whether a test is collected under this name, its own or the contract's."""
    file, *classes, test = name.split("::")
    path = ROOT / folder / file
    return test in named_in(class_in(path, classes[0]) if classes else parsed(path))


def test_the_table_has_all_frameworks() -> None:
    head, *rows = table()
    assert tuple(row[0] for row in rows) == tuple(TESTS)
    assert all(cell for row in rows for cell in row)
    assert {len(row) for row in rows} == {len(head)}


@pytest.mark.parametrize("host", TESTS)
def test_what_is_said_of_a_framework_is_tested(host: str) -> None:
    """In each column but the names of classes."""
    _, _, *columns = table()[0]
    folder, tests = TESTS[host]
    assert {*columns, "cancel", "usage"} <= tests.keys()
    assert [name for name in tests.values() if not is_there(folder, name)] == []


@pytest.mark.parametrize("page", MOST_WORDS)
def test_a_page_is_short(page: str) -> None:
    words, most = len((ROOT / f"docs/{page}.md").read_text().split()), MOST_WORDS[page]
    assert words <= most, f"docs/{page}.md has {words} words: shorten it to {most}"


def test_what_a_host_cannot_do_is_no_test_that_is_there() -> None:
    file = "test_contract.py::TestCrewAI"
    assert is_there("tests/crewai", f"{file}::test_limits_hold")
    assert not is_there("tests/crewai", f"{file}::test_a_cancel_reaches_the_worker")
    assert not is_there("tests/crewai", "test_contract.py::test_limits_hold")


def test_the_versions_are_those_of_the_packages() -> None:
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
