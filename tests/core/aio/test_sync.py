"""The bridge from sync code to async code: `run_sync` and `iterate`."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from podium.aio import iterate, run_sync

pytestmark = pytest.mark.timeout(60, method="thread")  # a main thread that waits takes no signal

WHO: ContextVar[str] = ContextVar("who", default="nobody")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork are POSIX's")


async def this_loop() -> int:
    return id(asyncio.get_running_loop())


async def who() -> str:
    try:
        return WHO.get()
    finally:
        WHO.set("somebody else")


async def count(to: int) -> AsyncGenerator[int, None]:
    for number in range(to):
        await anyio.lowlevel.checkpoint()
        yield number


def python(code: str, *, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)


def test_calls_of_all_threads_run_in_one_loop() -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len({run_sync(this_loop), *threads.map(lambda _: run_sync(this_loop), range(24))}) == 1


@pytest.mark.anyio
async def test_it_works_inside_a_running_loop() -> None:
    assert run_sync(this_loop) != id(asyncio.get_running_loop())
    assert list(iterate(lambda: count(3))) == [0, 1, 2]


def nested(depth: int) -> list[int]:
    async def call() -> list[int]:
        return [await this_loop(), *(nested(depth - 1) if depth else [])]

    return run_sync(call)


def test_a_call_from_inside_the_shared_loop_does_not_wait_for_itself() -> None:
    loops = nested(3)
    assert (len(set(loops)), nested(3)) == (4, loops)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_a_call_raises_is_its_callers_alone(error: BaseException) -> None:
    started, go_on = threading.Event(), threading.Event()

    async def other() -> str:
        started.set()
        await anyio.to_thread.run_sync(go_on.wait)
        return "went on"

    async def fail() -> None:
        raise error

    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(run_sync, other)
        started.wait(10)
        with pytest.raises(type(error)):
            run_sync(fail)
        go_on.set()
        assert beside.result(10) == "went on"
    assert run_sync(who) == "nobody"


def test_leaving_an_iteration_cancels_it_and_waits() -> None:
    """When `close` returns, the generator has ended."""
    ended: list[str] = []

    async def endless() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            ended.append("ended")

    with closing(iterate(endless)) as items:
        assert next(items) == 1
    assert ended == ["ended"]


@POSIX
@pytest.mark.parametrize("call", ["run_sync(work)", "list(iterate(works))"])
def test_ctrl_c_cancels_and_waits(call: str) -> None:
    code = f"""
import anyio
from podium.aio import iterate, run_sync

async def work():
    try:
        print("started", flush=True)
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.1)
        print("cleaned up", flush=True)

async def works():
    await work()
    yield 1

try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    command = [sys.executable, "-W", "error", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert (out.split("\n"), errors) == (["cleaned up", "interrupted", ""], "")


def test_the_interpreter_ends_while_calls_hang() -> None:
    """Neither a call in a daemon thread nor a thread that a limit left behind keeps it alive."""
    done = python(
        "import asyncio, threading, time, anyio\n"
        "from podium.aio import run_sync\n"
        "begun = threading.Event()\n"
        "async def hang():\n"
        "    begun.set()\n"
        "    with anyio.CancelScope(shield=True):\n"
        "        await anyio.sleep_forever()\n"
        "async def limited():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.1):\n"
        "            await asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)\n"
        "    except TimeoutError:\n"
        "        print('late')\n"
        "run_sync(limited)\n"
        "threading.Thread(target=run_sync, args=(hang,), daemon=True).start()\n"
        "begun.wait()\n"
        "print('over')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "late\nover\n", "")


@POSIX
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    done = python(
        "import os, warnings\n"
        "from podium.aio import run_sync\n"
        "warnings.simplefilter('ignore')\n"  # Python 3.12 and later warn of any fork beside a thread
        "async def one():\n"
        "    return 1\n"
        "async def forked():\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        os._exit(run_sync(one))\n"
        "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "async def beneath():\n"
        "    return run_sync(forked)\n"
        "print(run_sync(one), run_sync(forked), run_sync(beneath))\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    os._exit(run_sync(one))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), run_sync(one))\n"
    )
    assert (done.stdout, done.stderr) == ("1 1 1\n1 1\n", "")
