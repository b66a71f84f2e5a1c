"""`podium demo`: a workflow that is killed, resumed and approved on this machine, and then a question."""

import json
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from time import sleep
from typing import Annotated

import anyio
import typer

from podium.cli.answer import charge_line, problem_line, show_answer, status_line
from podium.cli.arguments import look
from podium.cli.demo_models import FAILING, DemoModels, RealModel, find_real_model
from podium.cli.live import LiveState, follow
from podium.cli.screen import NO_ANSWER, PARTIAL, WAITING, Screen, money, reporting
from podium.conductor import Conductor
from podium.config import load_config
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium.run_state import fold
from podium.types.events import Event
from podium.types.outcome import total_cost
from podium.types.result import Result
from podium.usage import Usage
from podium.workers import Price

_FILES = Path(__file__).parent / "demo_inbox"
_PAGES = Path(__file__).parent / "demo_pages"
_QUESTION = "What is 17.5% of 2,340, and what does an access list decide?"
_RUN = "inbox"
_REAL_MESSAGES = 3
"""Messages that a real model answers, because a small one takes seconds for each."""
_KILL_AT = 0.45
"""The share of the answers after which the process is killed."""
_ANSWERS_OF_MESSAGE = 4
_INTERNAL = "Internal, not for customers"
_MAPS = 5
"""The steps of the plan that work on each message; the sixth pays."""


def demo(
    question: Annotated[
        str | None,
        typer.Argument(help=f"A question for the end. Default: {_QUESTION}", show_default=False),
    ] = None,
    *,
    folder: Annotated[
        Path,
        typer.Option(
            help="Folder of text and Markdown files to search. Default: two pages about Podium.",
            show_default=False,
        ),
    ] = _PAGES,
    model: Annotated[
        bool, typer.Option("--model", help="Let a model write the texts: of a local server, or SmolLM2.")
    ] = False,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="With --model: the server. Default: one that is found.")
    ] = None,
) -> None:
    """Show what Podium is for, in a minute, without a key or network.

    A workflow of seven workers answers an inbox; a worker dies, the process is killed and resumed, an action
    waits for you. The models are scripted, and everything else is real.
    """
    with reporting() as screen:
        if not folder.is_dir():
            raise ConfigError(f"the folder {str(folder)!r} does not exist: name one with --folder")
        if base_url is not None and not model:
            raise ConfigError("--base-url needs --model: add it")
        with _real_model(screen, base_url) if model else nullcontext() as real, DemoModels(real) as models:
            Inbox(screen, models, _work_folder(models.base_url)).show()
        _ask(screen, question, folder)


@contextmanager
def _real_model(screen: Screen, base_url: str | None) -> Iterator[RealModel]:
    with find_real_model(base_url) as real:
        screen.result(f"The texts are written by {real.name} at {real.base_url}.")
        yield real


def _work_folder(base_url: str) -> Path:
    """Return a new folder with the config, the plan, the orders and the action of the demo."""
    folder = Path(mkdtemp(prefix="podium-demo-"))
    shutil.copytree(_FILES, folder, dirs_exist_ok=True)
    config = folder / "podium.toml"
    python = json.dumps(sys.executable)
    text = config.read_text(encoding="utf-8").replace("ADDRESS", base_url).replace('"PYTHON"', python)
    config.write_text(text, encoding="utf-8")
    return folder


class _Left(Exception):
    """The person has seen enough."""


@dataclass(slots=True)
class Inbox:
    """The workflow of the demo, part by part."""

    screen: Screen
    models: DemoModels
    folder: Path

    def show(self) -> None:
        """Show all parts; a person may skip one, or leave."""
        parts: tuple[tuple[str, Callable[[], None]], ...] = (
            ("The plan: seven workers over an inbox", self._plan),
            ("The run, and kill -9 in its middle", self._run),
            ("Resumed: nothing that was recorded is paid again", self._resume),
            ("A worker died, and another took its place", self._stand_in),
            ("An access list hides a line", self._access),
            ("An action waits for a person", self._act),
            ("The bill", self._bill),
            ("The viewer", self._view),
        )
        needed = (self._run, self._resume, self._act)
        self.screen.result(f"All files of the demo are in {self.folder}.")
        try:
            for number, (title, part) in enumerate(parts, 1):
                self.screen.result(f"\n── {number}/{len(parts)}  {title} ──\n")
                if self._wants(skips=part not in needed):
                    part()
        except _Left:
            self.screen.result("podium: the demo ends here")
            raise typer.Exit from None
        self.screen.result(f"\nAll files, with the recorded run, are in {self.folder}.")

    def _wants(self, *, skips: bool) -> bool:
        """Ask the person at the terminal whether to show a part; without a terminal, show it."""
        if not (self.screen.interactive and self.screen.can_ask):
            return True
        keys = "Enter: continue, s: skip this part, q: quit" if skips else "Enter: continue, q: quit"
        while (said := anyio.run(self.screen.ask, f"{keys} (then Enter): ").strip().lower()) not in ("", "q"):
            if skips and said == "s":
                return False
        if said == "q":
            raise _Left
        return True

    def _plan(self) -> None:
        from podium.cli.drawing import plan_table  # noqa: PLC0415 - rich is slow to import

        told = "The models are scripted. All else" if self.models.real is None else "All"
        self.screen.result(
            f"{told} is real: the plan, the processes, the journal, and the calls, which go over HTTP to a "
            "server\non this machine. The prices are examples.\n"
        )
        conductor = load_config(self.folder / "podium.toml").conductor()
        plan = conductor.plans["inbox"].plan({}, conductor.pool.names)
        self.screen.draw(plan_table(plan, conductor.pool.names, self.screen.shown, actions={_MAPS}))
        self.screen.result(
            "\n`podium plan --plan inbox` shows it too, with the expected calls, time and cost."
        )

    def _run(self) -> None:
        count = self._count
        kill_at = int(_KILL_AT * _ANSWERS_OF_MESSAGE * count)
        words = ["run", "--plan", "inbox", "--run-id", _RUN, *self._messages]
        self._tell(words)
        process = subprocess.Popen(self._command(words), cwd=self.folder)  # noqa: S603 - our own words
        while process.poll() is None and self.models.answered < kill_at:
            sleep(0.02)
        if process.poll() is not None:
            raise _stopped(self.folder, words, process.returncode, "to be killed")
        process.kill()
        process.wait()
        if self.screen.interactive:
            sys.stderr.write("\x1b[?25h\n")  # the killed process had hidden the cursor
        answered = self.models.answered
        self.screen.result(f"\nkill -9 {process.pid}: the process is gone, after {answered} answers.")

    def _resume(self) -> None:
        before = [each.prompt for each in self.models.asked]
        self._podium("resume", _RUN, expected=WAITING)
        after = self.models.asked[len(before) :]
        again = sum(each.prompt in before and each.model != FAILING for each in after)
        self.screen.result(
            f"\nBefore the kill {len(before)} calls, after it {len(after)}. {again} of these repeat calls "
            "that were in flight at\nthe kill: these had no recorded answer. No recorded one was paid again."
        )

    def _stand_in(self) -> None:
        result = self._result()
        of_worker = [each for each in result.outcomes if each.name.startswith("0[")]
        taken = [each for each in of_worker if each.worker == "stand-in"]
        refused = sum(not each.is_answered and each.model == "triage" for each in self.models.asked)
        self.screen.result(
            f"After {len(of_worker) - len(taken)} messages the server of triage was switched off: {refused} "
            f"calls failed.\nstand-in sorted the other {len(taken)}: `fallbacks` in [retry] names it."
        )

    def _access(self) -> None:
        books = next(each for each in self._result().outcomes if each.name == "1[0]")
        self.screen.result("The entry of the first order, as the worker books found it:\n")
        for line in books.text.splitlines():
            if line.strip():
                self.screen.result(f"    {line}{'      ← this line' if _INTERNAL in line else ''}")
        self.screen.result("\nIn how many prompts that line was, counted at the server of the models:\n")
        for name in ("assessor", "writer", "sceptic"):
            prompts = {each.prompt for each in self.models.asked if each.model == name}
            seen = sum(_INTERNAL in each for each in prompts)
            self.screen.result(f"    {name:10} {seen:2} of {len(prompts)}")
        self.screen.result(
            "\nStep 2 (assessor) lists step 1 on its access list. Step 3 (writer) lists step 2 only, so the\n"
            "line is not in its prompt: the worker cannot tell a customer what it was never shown."
        )

    def _act(self) -> None:
        receipt = self.folder / "refunds.txt"
        self.screen.result(f"Refunds so far: {'none' if not receipt.exists() else receipt.read_text()}\n")
        if self.screen.interactive and self.screen.can_ask:
            self._podium("resume", _RUN, "--approve", expected=None)
        else:
            self._podium("decide", _RUN, "approve", "--by", "demo")
            self._podium("resume", _RUN, expected=None)
        self.screen.result(f"\nrefunds.txt now:\n{receipt.read_text() if receipt.exists() else 'no refunds'}")
        if receipt.exists():
            self.screen.result("However often the run is killed or resumed, this happens once.")

    def _bill(self) -> None:
        result = self._result()
        manager, cached = as_tools(result)
        most = result.usage.estimated
        rows = [
            ("this run", result.cost),
            ("the same calls, with agents as tools of a manager", total_cost([result.cost, manager])),
            ("… if its provider caches what it reads again", total_cost([result.cost, cached])),
        ]
        for told, cost in rows:
            self.screen.result(f"    {told:52} {money(cost, at_most=most)}")
        if charge := charge_line(result):
            self.screen.result(f"\n{charge}. These calls were in flight at the kill, or failed.")
        self.screen.result(
            "\nA manager reads each result, writes it into the next call, and reads its own history at each "
            "turn. The\nsecond line is computed from the texts of this run, a turn for each step, and the "
            "price of the\nassessor; the third takes a tenth of the price for what was read before."
        )

    def _view(self) -> None:
        if find_spec("podium_server") is None:
            self.screen.result(
                "The viewer is in the package podium-server: `podium show inbox --open` opens it."
            )
            return
        if not (self.screen.interactive and self.screen.can_ask):
            self.screen.result("`podium show inbox --open`, in that folder, shows the run in a browser.")
            return
        self.screen.result("Ctrl-C ends the viewer.\n")
        self._podium("show", _RUN, "--open", expected=None)

    def _result(self) -> Result:
        """Return the recorded result so far."""

        async def read() -> list[Event]:
            return [entry.event for entry in await journal.read(_RUN)]

        journal = SqlJournal(self.folder / "runs.db")
        return fold(look(journal, read)).result()

    @property
    def _all_messages(self) -> list[str]:
        plan = tomllib.loads((self.folder / "inbox.toml").read_text(encoding="utf-8"))
        return list(plan["parameters"]["messages"]["default"])

    @property
    def _count(self) -> int:
        """The number of messages."""
        return len(self._all_messages) if self.models.real is None else _REAL_MESSAGES

    @property
    def _messages(self) -> list[str]:
        """The argument of the plan; none for all messages."""
        if self.models.real is None:
            return []
        return ["--arg", f"messages={json.dumps(self._all_messages[:_REAL_MESSAGES])}"]

    def _tell(self, words: list[str]) -> None:
        self.screen.result(
            f"$ podium {' '.join('messages=…' if word.startswith('messages=') else word for word in words)}"
        )

    def _podium(self, *words: str, expected: int | None = 0) -> None:
        """Run a command in the folder, and check how it ends."""
        self._tell(list(words))
        ended = subprocess.run(self._command(list(words)), cwd=self.folder, check=False)  # noqa: S603 - ours
        if expected is not None and ended.returncode != expected:
            raise _stopped(self.folder, words, ended.returncode, f"to end with {expected}")

    @staticmethod
    def _command(words: list[str]) -> list[str]:
        return [sys.executable, "-m", "podium", *words]


def _stopped(folder: Path, words: Sequence[str], code: int, expected: str) -> ConfigError:
    told = f"`podium {words[0]}` was {expected}, and ended with {code}"
    how = f"the lines above, and `podium show {_RUN} --outputs` in {folder}, say why"
    return ConfigError(f"the demo cannot continue: {told}; {how}")


_PRICE = Price(input=1.25, output=10.0)
_CACHED = replace(_PRICE, cached_input=0.125)
"""The price of the assessor, which would be the manager, without and with a cache of what it has read."""
_CHARS = 4
_MANAGER_TOKENS = 400
"""Instructions and six tools of a manager, in tokens."""


def as_tools(result: Result) -> tuple[float, float]:
    """Return what a manager costs that calls the workers of a run as tools, without and with a cache, in USD.

    The manager has one turn for each step, with parallel calls for all items. It writes the input of each
    call, which is the item and what the access list of the step shows, and reads all outputs.
    """
    plan, outcomes = result.plans[0], result.outcomes
    items = [str(item) for item in (plan.args or {})["messages"]]
    outputs = {
        step: [each.text for each in outcomes if each.name.startswith(f"{step}[")] for step in range(_MAPS)
    }
    cost = cached = 0.0
    history, new = 0, _MANAGER_TOKENS + sum(map(len, items)) // _CHARS
    for number in range(_MAPS + 1):  # the last turn writes the answer
        written = 0
        if number < _MAPS:
            shown = [outputs[each] for each in plan.calls[number].access_list if isinstance(each, int)]
            written = sum(map(len, [*items, *(text for each in shown for text in each)])) // _CHARS
        cost += _PRICE.cost(Usage(history + new, written))
        cached += _CACHED.cost(Usage(history + new, written, history))
        history, new = history + new + written, sum(map(len, outputs.get(number, ()))) // _CHARS
    return cost, cached


def _ask(screen: Screen, question: str | None, folder: Path) -> None:
    """Answer a question of the person, or the default one, without a model."""
    from podium.cli.drawing import View, draw_run  # noqa: PLC0415 - rich is slow to import
    from podium.planners.rule import RulePlanner  # noqa: PLC0415 - only the demo needs it
    from podium.workers import Calculator, Documents, Gather  # noqa: PLC0415 - only the demo needs them

    if question is None and screen.interactive and screen.can_ask:
        question = anyio.run(screen.ask, "\nA question of yours, on numbers or Podium (Enter: an example): ")
    question = (question or "").strip() or _QUESTION
    screen.result(f"\nQuestion: {question}\n")
    conductor = Conductor(RulePlanner(), [Calculator(), Documents(folder, top=2), Gather()])
    state = LiveState()

    async def job(listen: Callable[[Event], None]) -> Result:
        return await conductor.run(question, on_event=listen)

    if screen.interactive:
        result = anyio.run(View(screen, state).watch, job)
    else:
        result = anyio.run(follow, job, state)
        draw_run(screen, state)
    _conclude(screen, question, result)


def _conclude(screen: Screen, question: str, result: Result) -> None:
    for layer in result.plans[0].layers if result.plans else ():
        if len(layer) > 1:
            steps = " and ".join(map(str, layer))
            screen.result(f"Steps {steps} ran in parallel, because none depends on another.")
    screen.result("")
    show_answer(screen, result)
    podium = "podium" if shutil.which("podium") else f"{shlex.quote(sys.executable)} -m podium"
    more = [
        "\nTo run it with your models: export the key of a provider, or start a server such as Ollama, then",
        f"  {podium} init",
        f"  {podium} run {shlex.quote(question)}",
    ]
    screen.result("\n".join(["", status_line(result), *filter(None, [problem_line(result)]), *more]))
    if result.status != "ok":
        raise typer.Exit(PARTIAL if result.status == "partial" else NO_ANSWER)
