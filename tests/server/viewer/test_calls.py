"""The calls of a step in Chromium: retries and nested runs."""

import re

import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve, team
from server.viewer.conftest import STEPS, ended, start
from servers.chat_server import Call, ChatServer, Reply, whole
from servers.podium_server import Served

from podium.conductor import Conductor
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.types import Plan, Step
from podium.workers import Card, ScriptedWorker

pytestmark = pytest.mark.long


def test_the_calls_of_a_retried_step(serve: Serve, upstream: ChatServer, page: Page) -> None:
    """The failed call has its problem and its wait; the second call is good."""
    calls: list[Call] = []

    def reply(call: Call) -> Reply:
        calls.append(call)
        if len(calls) == 1:
            return whole({"error": {"message": "out of memory"}}, status=500)
        return team(call)

    upstream.reply = reply
    served = serve(models="[retry]\nfirst_wait = 0.01\n")
    client = served.http()
    run_id = start(client, plan={"steps": [{**STEPS[2], "access": []}]})
    assert ended(client, run_id)["status"] == "ok"
    page.goto(f"{served.root}/#/runs/{run_id}/1.0")
    listed = page.get_by_label("Step 0", exact=True).locator(".attempts li")
    expect(listed).to_have_count(2)
    expect(listed.nth(0)).to_contain_text(re.compile("failed two.*then a wait of .*out of memory", re.DOTALL))
    expect(listed.nth(1)).to_contain_text("ok two")
    expect(page.get_by_text("calls 2 of")).to_be_visible()


def test_a_nested_run(served: Served, page: Page) -> None:
    """The step of a conductor links to its run, which is shown as any other run."""
    assert served.app.journal is not None
    inner = Conductor(
        FixedPlanner(Plan((Step(0, "Look closely."),))),
        [ScriptedWorker("eye", "blue")],
        card=Card(name="inner", description="Looks."),
    )
    outer = Conductor(
        FixedPlanner(Plan((Step(0, "Look."), Step(1, "Say it.", access=(0,))))),
        [inner, ScriptedWorker("mouth", "It is blue.")],
        journal=SqlJournal(served.app.journal.url),
    )
    run_id = outer.run_sync("Which colour?").run_id
    page.goto(f"{served.root}/#/runs/{run_id}/1.0")
    page.get_by_role("link", name="Nested run").click()
    expect(page.get_by_label("Step 0, eye, ok")).to_be_visible()
    expect(page.locator(".body > pre")).to_have_text("blue")
    assert run_id not in page.url
    page.goto(f"{served.root}/#/")
    expect(page.get_by_role("row")).to_have_count(1)
