"""Checks that limits and Ctrl-C end a synchronous call, and the process, while a worker blocks a thread."""

import subprocess
import sys
from typing import Final

import pytest

ENDINGS: Final = ("limit", "ctrl-c")
_CODE: Final = """
import os, signal, threading, time
from podium import Conductor, Limits, Plan, Step
from podium.errors import RunFailed
from podium.execution import Retry
from podium.planners import FixedPlanner

begun = threading.Event()

def block():
    begun.set()
    time.sleep(60)

def conductor(worker):
    plan = Plan((Step(0, "Do it."),))
    limits = Limits(seconds={seconds})
    return Conductor(FixedPlanner(plan), [worker], limits=limits, retry=Retry(attempts=1))

def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)

{setup}

if {interrupts}:
    threading.Thread(target=interrupt, daemon=True).start()
try:
    {call}
except (RunFailed, KeyboardInterrupt) as error:
    print(type(error).__name__)
"""


def check_ends(setup: str, call: str, ending: str) -> None:
    """Run code in its own process, which must end long before the worker.

    Args:
        setup: code that prepares the call, with `block` and `conductor`.
        call: code of the synchronous call.
        ending: a key of `ENDINGS`.
    """
    if ending == "ctrl-c" and sys.platform == "win32":
        pytest.skip("the test needs POSIX signals")
    interrupts = ending == "ctrl-c"
    code = _CODE.format(seconds=50 if interrupts else 0.5, setup=setup, interrupts=interrupts, call=call)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=45)
    assert done.stdout == ("KeyboardInterrupt\n" if interrupts else "RunFailed\n"), done.stderr
    assert done.returncode == 0
