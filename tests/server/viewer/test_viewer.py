"""The viewer in Chromium: the list of runs, one run, its steps, approvals, a comparison, and the charts."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve, ended
from server.viewer.conftest import STEPS, opened, start
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served
from servers.shop import shop

AXE = Path(__file__).parents[3] / ".clients/node_modules/axe-core/axe.min.js"
APPROVAL = '\n[policy]\napprove = "later"\n'
HOSTILE = '<img src=x onerror="document.title=`broken`"> \x00\x1b[31m \u202eevil <script>alert(1)</script>'


@pytest.mark.long
def test_from_the_list_to_a_step(served: Served, upstream: ChatServer, page: Page) -> None:
    client = served.http()
    run_id = start(client, plan={"steps": STEPS})
    ended(client, run_id)
    page.goto(served.root)
    page.get_by_role("link", name="Why is the sky blue?").click()
    expect(page.get_by_role("heading", name="Why is the sky blue?")).to_be_visible()
    expect(page.locator("main > .run > .body > pre")).to_have_text("the answer")
    page.get_by_label("Step 2, two, ok").click()
    assert page.url.endswith(f"#/runs/{run_id}/1.2")
    panel = page.get_by_label("Step 2", exact=True)
    expect(panel.get_by_text("Not shown: step 1")).to_be_visible()
    panel.get_by_text("Prompt").click()
    (sent,) = (call.body["messages"][-1]["content"] for call in upstream.calls if call.body["model"] == "two")
    expect(panel.locator("details pre")).to_have_text(sent)
    page.reload()
    expect(page.get_by_label("Step 2", exact=True)).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize("action", ["Edit", "Approve", "Refuse"])
def test_a_plan_that_waits(serve: Serve, page: Page, action: str) -> None:
    served = serve(models=APPROVAL)
    run_id = opened(served, page)
    expect(page.get_by_text("The run has no answer yet.")).to_be_visible()
    waits = page.get_by_role("status").filter(has_text="The plan of round 1 waits for approval.")
    expect(waits).to_be_visible()
    expect(page.locator(".bad")).to_have_count(0)
    page.get_by_label("Reason").fill("I looked at it.")
    if action == "Edit":
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Subtask of step 0").fill("Collect other facts.")
        page.get_by_role("button", name="Approve the changed plan").click()
    else:
        page.get_by_role("button", name=action, exact=True).click()
    told = {"Approve": "approved", "Edit": "changed", "Refuse": "refused"}[action]
    by = "user" if action == "Edit" else "planner"
    said = f"Written by {by}. The plan was {told} by local: I looked at it."
    expect(page.get_by_text(said, exact=True)).to_be_visible()
    run = ended(served.http(), run_id)
    assert run["status"] == ("failed" if action == "Refuse" else "ok")
    if action == "Edit":
        assert run["rounds"][0]["plan"]["steps"][0]["subtask"] == "Collect other facts."


REFUNDS: list[dict[str, Any]] = [
    {"worker": "shop.refund", "subtask": '{"order": 1017}', "access": []},
    {"worker": "shop.refund", "subtask": '{"order": 1018}', "access": []},
    {"worker": "two", "subtask": "Write the answer.", "access": [0]},
]


@pytest.mark.long
def test_actions_that_wait(serve: Serve, page: Page, faults: list[str]) -> None:
    with shop() as orders:
        served = serve(models=orders.patient + APPROVAL + 'ask = "actions"\n')
        opened(served, page, plan={"steps": REFUNDS})
        expect(page.get_by_label("Step 0, shop.refund, waiting, action: waits for approval")).to_be_visible()
        first, second = (page.get_by_label(f"Approval of step {step}") for step in (0, 1))
        expect(first.locator("pre")).to_have_text('{"order": 1017}')
        first.get_by_label("Reason").fill("It is due.")
        first.get_by_role("button", name="Change").click()
        first.get_by_label("What it is to do").fill("1019")
        first.get_by_role("button", name="Approve the change").click()
        expect(first.get_by_role("alert")).to_contain_text("write a JSON object")
        faults.clear()
        first.get_by_label("What it is to do").fill('{"order": 1019}')
        first.get_by_role("button", name="Approve the change").click()
        expect(first).to_have_count(0)
        second.get_by_role("button", name="Refuse").click()  # the run continues when all are decided
        expect(page.get_by_label("Step 0, shop.refund, ok, action: done")).to_be_visible()
        expect(page.get_by_label("Step 1, shop.refund, skipped, action: not carried out")).to_be_visible()
        expect(page.locator(".head .badge")).to_have_text("partial")
        assert orders.refunds == [1019]


@pytest.mark.long
def test_questions_that_wait(serve: Serve, page: Page, faults: list[str]) -> None:
    """A text, a choice, a form, and answers that do not fit, whose reasons are shown."""
    served = serve(models='[workers.ann]\ntype = "person"\ndeadline = 3600\n')
    form = {"name": "string", "age": "integer", "kind": "old|new", "paid": "boolean"}
    form |= {"share?": "number", "why?": "string"}
    asking = [
        {"worker": "ann", "subtask": "Why?", "access": [], "returns": {"type": "integer"}},
        {"worker": "ann", "subtask": "Now?", "access": [], "returns": {"enum": ["yes", "no"]}},
        {"worker": "ann", "subtask": "Who?", "access": [], "returns": form},
        {"worker": "two", "subtask": "Write the answer.", "access": [0, 1, 2]},
    ]
    run_id = opened(served, page, plan={"steps": asking})
    first, second, third = (page.get_by_label(f"Question of step {step}") for step in range(3))
    expect(first.locator("pre")).to_have_text("Why?")
    expect(first.get_by_text("until ")).to_be_visible()
    first.get_by_label("Answer").fill("because")
    first.get_by_role("button", name="Answer", exact=True).click()
    expect(first.get_by_role("alert")).to_contain_text("'because' is not of type 'integer'")
    faults.clear()
    first.get_by_label("Answer").fill("42")
    first.get_by_role("button", name="Answer", exact=True).click()
    expect(first).to_have_count(0)
    second.get_by_label("yes").check()
    second.get_by_role("button", name="Answer", exact=True).click()
    expect(second).to_have_count(0)
    third.get_by_label("name").fill("42")
    third.get_by_label("kind").select_option("new")
    third.get_by_label("paid").select_option("no")
    third.get_by_label("share (optional)").fill("0.5")
    third.get_by_role("button", name="Answer", exact=True).click()
    expect(third.get_by_role("alert")).to_contain_text("'age' is a required property")
    faults.clear()
    third.get_by_label("age").fill("7")
    third.get_by_label("share (optional)").fill("")
    third.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator(".head .badge")).to_have_text("ok")
    steps = ended(served.http(), run_id)["rounds"][0]["steps"]
    answers = [42, "yes", {"name": "42", "kind": "new", "paid": False, "age": 7}]
    assert [json.loads(step["text"]) for step in steps[:3]] == answers


@pytest.mark.long
def test_outputs_are_text(served: Served, upstream: ChatServer, page: Page) -> None:
    def reply(call: Call) -> Reply:
        return says(call, HOSTILE if call.body["model"] == "one" else "x" * 300_000)

    upstream.reply = reply
    plan = {"steps": [{**step, "subtask": f"{HOSTILE} {at}"} for at, step in enumerate(STEPS)]}
    opened(served, page, "/1.0", query=HOSTILE, plan=plan)
    shown = page.get_by_label("Step 0", exact=True).locator("pre").last
    expect(shown).to_contain_text("<img src=x onerror=")
    expect(shown).to_contain_text("‹U+001B›[31m ‹U+202E›evil <script>")
    assert page.locator("img, #app script").count() == 0
    assert page.title() != "broken"
    expect(page.locator(".body > pre")).to_have_text("x" * 20_000)
    page.get_by_role("button", name="Show all 300,000 characters").click()
    expect(page.locator(".body > pre")).to_have_text("x" * 300_000)


@pytest.mark.long
def test_search_keys_and_a_comparison(served: Served, page: Page) -> None:
    client = served.http()
    for query in ("An apple?", "A pear?", "A plum?"):
        ended(client, start(client, query=query))
    page.goto(served.root)
    rows = page.get_by_role("row")
    expect(rows).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("PEAR")
    expect(rows).to_have_count(1)
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Delete")
    expect(rows).to_have_count(3)
    page.keyboard.press("Escape")
    for key in ("j", "c", "j", "c"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="A pear?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    page.keyboard.press("C")
    expect(page.get_by_role("heading", name=re.compile("A pear|A plum"))).to_have_count(2)
    expect(page.get_by_label("Plan of round 1")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(rows).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Plan of round 1")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_label("Step 0", exact=True)).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Esc")


def test_the_files_have_strict_headers(served: Served) -> None:
    with httpx2.Client(base_url=served.root) as client:
        for path in ("/", "/viewer/main.js", "/viewer/vendor/dagre.js", "/viewer/style.css"):
            answer = client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert answer.headers["x-content-type-options"] == "nosniff"
            again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        for path in ("/viewer/../route.py", "/viewer/%2e%2e/route.py", "/viewer/none.js", "/viewer/"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_url"), path


def test_the_prompts_are_those_that_were_sent(served: Served, upstream: ChatServer) -> None:
    """`GET /v1/runs/{id}/prompts` has the messages of each call, and what they show."""
    client = served.http()
    run_id = start(client, plan={"steps": STEPS})
    ended(client, run_id)
    made = client.get(f"/runs/{run_id}/prompts").json()["data"]
    sent = sorted(json.dumps(call.body["messages"]) for call in upstream.calls)
    assert sorted(json.dumps(each["messages"]) for each in made if each["step"] != 1) == sent
    assert [(each["shown"], each["hidden"]) for each in made][-1] == ([0], [1])
    assert client.get(f"/runs/{run_id}/prompts?round=1&step=2").json()["data"] == [made[-1]]
    assert client.get("/runs/none/prompts").status_code == 404


@pytest.mark.long
@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core of npm: run `make test-clients`")
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_pages_are_accessible(served: Served, page: Page, colours: Literal["light", "dark"]) -> None:
    client = served.http()
    ids = [start(client), start(client)]
    for run_id in ids:
        ended(client, run_id)
    page.emulate_media(color_scheme=colours)
    places = {
        "/#/?label=eu&status=ok": "No run fits the filters.",
        "/": "Why is the sky blue?",
        f"/#/runs/{ids[0]}/1.1": "Run again from this step",
        f"/#/runs/{ids[0]}": "Edit and run…",
        f"/#/compare/{ids[0]}/{ids[1]}": "Why is the sky blue?",
        f"/#/ask?run={ids[0]}": "First show me the plan",
        "/#/sums": "Cost by day",
    }
    for place, told in places.items():
        page.goto(f"{served.root}{place}")
        expect(page.get_by_text(told).first).to_be_visible()
        if told == "Edit and run…":
            page.get_by_role("button", name=told).click()
            expect(page.get_by_text("Expected:")).to_be_visible()
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run()")["violations"]
        assert [(each["id"], node["html"]) for each in found for node in each["nodes"]] == [], place


@pytest.mark.long
def test_the_charts(served: Served, page: Page) -> None:
    client = served.http()
    page.goto(f"{served.root}/#/sums")
    expect(page.get_by_text("No run began in this time.")).to_be_visible()
    runs = [ended(client, start(client, plan={"steps": STEPS})) for _ in range(2)]
    page.goto(f"{served.root}/#/sums?days=7")
    bars = page.get_by_role("list", name="Cost by day")
    expect(bars.get_by_role("link")).to_have_count(7)
    today = datetime.now(UTC).date().isoformat()
    told = re.compile(rf"^{today}: \$0\.00\d+ in 2 runs, two \$0\.00\d+, one \$0\.000\d+$")
    day = bars.get_by_role("link", name=told)
    expect(day.locator("span")).to_have_count(2)
    row = page.get_by_label("Cost and time by worker").get_by_role("row").filter(has_text="two")
    cost = sum(run["cost_by_worker"]["two"] for run in runs)
    expect(row.get_by_role("cell").nth(0)).to_have_text("2")
    expect(row.get_by_role("cell").nth(1)).to_have_text(f"${cost:.2g}")
    expect(row.get_by_role("cell").nth(3)).to_have_text(re.compile(r"^\d.* m?s$"))
    page.get_by_label("Period").select_option("30 days")
    expect(bars.get_by_role("link")).to_have_count(30)
    page.get_by_label("Model").select_option("mini")
    expect(page.get_by_text("No run began in this time.")).to_be_visible()
    assert page.url.endswith("#/sums?days=30&model=mini")
    page.get_by_label("Model").select_option("")
    bars.get_by_role("link", name=re.compile(f"^{today}")).click()
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name=f"Remove the filter day {today}").click()
    expect(page.get_by_role("row")).to_have_count(2)
