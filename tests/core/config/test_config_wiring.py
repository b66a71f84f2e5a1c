"""What `podium.toml` says is done: each key changes what a server is sent, or what a run comes to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from core.actors import plan_of
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import Result
from podium.config import load_config
from podium.errors import PlannerError
from podium.plan_text import Spelling, write_plan
from podium.workers import Timeouts

pytestmark = pytest.mark.anyio

WORKERS = "alpha", "bravo", "charlie", "delta", "echo"
GRAMMAR = "structured_outputs"
Answer = Callable[[Call], Reply]


def _planned(spelling: Spelling = "rows") -> Answer:
    text = write_plan(plan_of((0, "find out", ())), spelling)
    return lambda call: says(call, text)


class Site:
    """A config beside a server that plays planner, workers and judge, by the model asked."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "podium.toml"
        self.calls: list[Call] = []

    async def run(  # noqa: PLR0913  (one file's tables)
        self,
        *,
        planner: str = "",
        conductor: str = "",
        endpoint: str = "",
        limits: str = "",
        tables: str = "",
        boss: Answer | None = None,
        alpha: Answer | None = None,
        runs: int = 1,
        question: str = "Who wrote Faust? When was Goethe born?",
    ) -> Result:
        """Run as the file with these lines says, and return the last result."""

        def reply(call: Call) -> Reply:
            answers = {"boss": boss or _planned(), "judge": lambda call: says(call, "NO, too short.")}
            if alpha is not None:
                answers["alpha"] = alpha
            return answers.get(call.body["model"], lambda call: says(call, "done"))(call)

        async with ChatServer(reply) as server:
            workers = [f'[workers.{n}]\nendpoint = "local"\nmodel = "{n}"' for n in (*WORKERS, "judge")]
            self.path.write_text(
                f'[endpoints.local]\nbase_url = "{server.url}"\nprovider = "vllm"\n{endpoint}\n'
                + "\n".join(f'{table}\ndescription = "Speaks of {n}."' for n, table in enumerate(workers))
                + f'\n[planner]\nendpoint = "local"\nmodel = "boss"\n{planner}\n'
                + f"[conductor]\n{conductor}\n[limits]\n{limits}\n{tables}\n"
            )
            made = load_config(self.path).conductor()
            self.calls = server.calls
            async with made:
                results = [await made.run(question) for _ in range(runs)]
        return results[-1]

    def bodies(self, model: str) -> list[dict[str, Any]]:
        return [call.body for call in self.calls if call.body["model"] == model]

    def told(self, model: str) -> list[str]:
        """Return the text of each last message a model was sent."""
        return [body["messages"][-1]["content"] for body in self.bodies(model)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


Seen = Callable[[Site], object]


def calls_of(model: str) -> Seen:
    return lambda site: len(site.bodies(model))


def told(*words: str) -> Seen:
    """Return a function that finds words in the first prompt of the planner, and the grammar beside it."""
    return lambda site: [word in site.told("boss")[0] + str(site.bodies("boss")[0].keys()) for word in words]


def question(site: Site) -> object:
    """Return whether the worker sees the question, and whether the planner knows that it does not."""
    return "Goethe" in str(site.bodies("alpha")), "not the question" in site.told("boss")[0]


def examples(site: Site) -> object:
    return site.told("boss")[0].count("Question: ")


def tools(site: Site) -> object:
    """Return whether the planner is sent the workers as tools of the API, and in its prompt."""
    return "tools" in site.bodies("boss")[0], "<tools>" in str(site.bodies("boss")[0])


SHORT = {"question": "Which one speaks of 3, delta?"}
SHARED = {"runs": 2, "tables": "[journal]\npath = 'runs.db'\n"}
PIN = "[[policy.pins]]\nwords = 'find'\nworker = 'bravo'\n"
PLAIN: dict[str, Site] = {}
"""Runs without any key, by their options."""
ALL, NAMES = [True, True, True], ("Worker 2", "charlie", "Speaks of 2")


@pytest.mark.parametrize(
    ("keys", "options", "seen", "without", "expected"),
    [
        ({"conductor": "direct = true"}, SHORT, calls_of("boss"), 1, 0),
        ({"conductor": "show_question = false"}, {}, question, (True, False), (False, True)),
        ({"conductor": 'cache = "shared"'}, SHARED, calls_of("alpha"), 2, 1),
        ({"planner": 'show = "ordinals"'}, {}, told(*NAMES), ALL, [True, False, False]),
        ({"planner": "examples = 4"}, {}, examples, 1, 4),
        ({"planner": "reasons = true"}, {}, told("what its step", GRAMMAR), [False, True], [True, False]),
        ({"planner": "workflows = true"}, {}, told("{{item}}"), [False], [True]),
        ({"planner": "turns = 4"}, {}, tools, (False, False), (True, False)),
        ({"planner": "turns = 4\nnative = false"}, {}, tools, (False, False), (False, True)),
        ({"planner": "constrain = false"}, {}, told(GRAMMAR), [True], [False]),
        ({"tables": "[policy]\ndenied = ['alpha']\n"}, {}, calls_of("alpha"), 1, 0),
        ({"tables": PIN}, {}, calls_of("alpha"), 1, 0),
    ],
)
async def test_a_key_changes_what_is_sent(
    site: Site, keys: Any, options: Any, seen: Seen, without: Any, expected: Any
) -> None:
    if str(options) not in PLAIN:
        PLAIN[str(options)] = Site(site.path.parent)
        await PLAIN[str(options)].run(**options)
    assert seen(PLAIN[str(options)]) == without
    await site.run(**keys, **options)
    assert seen(site) == expected


@pytest.mark.parametrize(("line", "judged"), [("", 0), ('accept = "judge"', 2)])
async def test_accept(site: Site, line: str, judged: int) -> None:
    plans = [plan_of((0, "find out", ())), plan_of((1, "find out more", ()))]

    def boss(call: Call) -> Reply:
        return says(call, write_plan(plans.pop(0), "rows"))

    result = await site.run(conductor=line, limits="rounds = 2", boss=boss)
    assert len(site.bodies("judge")) == judged
    assert (result.problem is not None and result.problem.code == "not_accepted") is bool(judged)


async def test_limits_on_calls(site: Site) -> None:
    with pytest.raises(PlannerError, match=r"raise Limits\.calls"):
        await site.run(limits="calls = 1")
    assert not site.calls


async def test_sampling(site: Site) -> None:
    await site.run(planner='sampling = { temperature = 0.25, max_tokens = 77, seed = 5, effort = "low" }')
    wanted = {"temperature": 0.25, "max_tokens": 77, "seed": 5, "reasoning_effort": "low"}
    assert wanted.items() <= site.bodies("boss")[0].items()
    assert not wanted.keys() & site.bodies("alpha")[0].keys()


@pytest.mark.parametrize(("spelling", "begins"), [("json", '"{\\"steps\\": ["'), ("lists", '"model_id = ["')])
async def test_spelling(site: Site, spelling: Spelling, begins: str) -> None:
    result = await site.run(planner=f'spelling = "{spelling}"', boss=_planned(spelling))
    grammars = {one: one in site.bodies("boss")[0][GRAMMAR]["grammar"] for one in (begins, '"model_id = ["')}
    assert grammars[begins]
    assert grammars['"model_id = ["'] is (spelling == "lists")
    assert ("model_id" in site.told("boss")[0]) is (spelling == "lists")
    assert (result.status, len(site.bodies("boss"))) == ("ok", 1)


def test_every_timeout_reaches_the_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "podium.toml"
    path.write_text(
        '[endpoints.local]\nbase_url = "http://localhost:1/v1"\ntimeouts = { connect = 1, idle = 3 }\n'
        '[workers.a]\nendpoint = "local"\nmodel = "m"\n[planner]\ntype = "rule"\n'
    )
    worker = load_config(path).worker("a")
    assert worker.endpoint.timeouts == Timeouts(connect=1, first_byte=120, idle=3, total=600)


def _down(_: Call) -> Reply:
    return whole({"error": {"message": "down"}}, status=503)


@pytest.mark.parametrize(
    ("keys", "called"),
    [
        ("attempts = 1", ["alpha"]),
        ("retry_on = ['worker_timeout']", ["alpha"]),
        ("attempts = 2\nfallbacks = { alpha = ['bravo'] }", ["alpha", "bravo"]),
    ],
)
async def test_retry(site: Site, keys: str, called: list[str]) -> None:
    await site.run(tables=f"[retry]\nfirst_wait = 0.01\n{keys}\n", alpha=_down)
    assert [call.body["model"] for call in site.calls if call.body["model"] != "boss"] == called


async def test_the_next_best(site: Site) -> None:
    tables = "[retry]\nnext_best = ['bravo']\nask_again = false\n[workers.zulu]\nendpoint = 'local'\n"
    tables += 'model = "zulu"\naccept = "^[A-D]$"\n'
    plan = write_plan(plan_of((6, "find out", ())), "rows")
    result = await site.run(tables=tables, boss=lambda call: says(call, plan))
    assert (result.answer, [call.worker for call in result.outcomes[0].calls]) == ("done", ["zulu", "bravo"])


@pytest.mark.parametrize(("line", "ran"), [("", 1), ('on_failure = "skip"', 0)])
async def test_on_failure(site: Site, line: str, ran: int) -> None:
    text = write_plan(plan_of((0, "find out", ()), (1, "find more", ()), (1, "write it", (0, 1))), "rows")
    once = "[retry]\nattempts = 1\n"
    await site.run(conductor=line, tables=once, boss=lambda call: says(call, text), alpha=_down)
    assert len(site.bodies("bravo")) == 1 + ran
