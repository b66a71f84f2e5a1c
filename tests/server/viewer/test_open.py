"""`podium show --open`: the viewer over a journal, without a server that executes runs."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Page, expect
from server.scene import config, until
from servers.chat_server import ChatServer

from podium.conductor import Conductor
from podium.config import load_config

pytestmark = pytest.mark.long

KEY = "THE_KEY_OF_THE_TEAM"


@pytest.fixture
def folder(upstream: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a config whose endpoint needs a key, and remove the key from the environment."""
    text = config(upstream.url).replace("[workers.one]", f'key_env = "{KEY}"\n[workers.one]')
    (tmp_path / "podium.toml").write_text(text)
    monkeypatch.delenv(KEY, raising=False)
    return tmp_path


def answered(folder: Path, more: str = "") -> str:
    """Answer a question as `podium run` does, with the key and more of a config; return the id of the run."""
    whole = folder / "whole.toml"
    whole.write_text((folder / "podium.toml").read_text() + more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, "sk-test")
        conductor = load_config(whole).conductor()
    assert isinstance(conductor, Conductor)
    return conductor.run_sync("Why is the sky blue?").run_id


@contextmanager
def opened(
    page: Page | None, folder: Path, run_id: str, *options: str, **environ: str
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "podium", "show", run_id, "--open", *options]
    known: Any = {"cwd": folder, "text": True, "env": os.environ | environ}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **known) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            if page is not None:
                page.goto("about:blank")  # else it finds no server when it looks for changes
            process.terminate()
            process.wait(20)


def test_a_run_of_the_command_line(folder: Path, page: Page) -> None:
    """It is shown without an API key; the token leaves the address, and Ctrl-C ends the command."""
    run_id = answered(folder)
    with opened(page, folder, run_id[:8], "--no-browser") as (url, process):
        page.goto(url)
        expect(page.get_by_role("heading", name="Why is the sky blue?")).to_be_visible()
        assert page.url.endswith(f"/#/runs/{run_id}")
        page.get_by_label("Step 1, two, ok").click()
        expect(page.get_by_text("this server does not have the model 'conductor' of the run")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Step 1", exact=True)).to_be_visible()
        page.goto(f"{url.partition('#')[0]}#/")
        expect(page.get_by_role("row")).to_have_count(1)
        page.get_by_role("link", name="Charts").click()
        expect(page.get_by_role("list", name="Cost by day")).to_be_visible()
        expect(page.get_by_role("link", name="Ask")).to_have_count(0)
        page.goto("about:blank")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        told = process.stderr.read()
        assert process.wait(20) == 130
    assert (KEY in told, "Traceback" in told) == (True, False)


def test_only_the_holder_of_the_address_sees_runs(folder: Path, page: Page, faults: list[str]) -> None:
    run_id = answered(folder)
    with opened(page, folder, run_id, "--no-browser") as (url, _):
        place = urlsplit(url)
        token = {"authorization": f"Bearer {place.fragment.split('/')[2]}"}
        with httpx2.Client(base_url=f"http://{place.netloc}") as client:
            for path in ("/session", "/v1/runs", f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/events"):
                for headers, status in (
                    ({}, 401),
                    ({"authorization": "Bearer x"}, 401),
                    ({**token, "host": "evil.example"}, 403),
                    ({**token, "origin": "https://evil.example"}, 403),
                ):
                    assert client.get(path, headers=headers).status_code == status
            assert client.get(f"/v1/runs/{run_id}", headers=token).json()["answer"] == "the answer"
            assert client.delete(f"/v1/runs/{run_id}", headers=token).status_code == 405
            assert client.post("/v1/runs", json={}, headers=token).status_code == 405
        page.goto(url.partition("#")[0])
        expect(page.get_by_role("alert")).to_contain_text("use the address that `podium show --open` wrote")
        faults.clear()


def test_a_plan_that_waits_is_not_approved_here(folder: Path, page: Page) -> None:
    run_id = answered(folder, '\n[policy]\napprove = "later"\n')
    with opened(page, folder, run_id, "--no-browser") as (url, _):
        page.goto(url)
        expect(page.get_by_text(f"podium decide {run_id[:12]} approve")).to_be_visible()
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)


def test_the_browser_gets_no_token_in_its_arguments(folder: Path) -> None:
    run_id = answered(folder)
    script, seen = folder / "browser", folder / "seen"
    script.write_text(f'#!/bin/sh\necho "$1" > {seen}.part\nmv {seen}.part {seen}\n')
    script.chmod(0o700)
    with opened(None, folder, run_id, BROWSER=f"{script} %s") as (url, _):
        assert until(seen.exists)
        page = Path(urlsplit(seen.read_text().strip()).path)
        assert url in page.read_text()
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    assert not page.exists()
