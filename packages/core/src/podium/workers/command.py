"""Coding agents and other programs as workers: each call is a process in a folder or in a git worktree."""

import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal, get_args
from uuid import uuid4

import anyio

from podium.errors import (
    AgentFailed,
    AnswerTooLong,
    ConfigError,
    WorkerBroken,
    WorkerError,
    WorkerRefused,
    install_hint,
)
from podium.secrets import Boundary, register
from podium.types.messages import Completion, Constraint, prompt_text, storable
from podium.types.references import compact
from podium.usage import Usage
from podium.workers.openai.chat import is_strict
from podium.workers.openai.errors import quoted
from podium.workers.process import MOST_BYTES, Ended, Report, started, talk
from podium.workers.worker import FREE, Caller, Card, Request, Worker

_LOG = logging.getLogger("podium.command")
_PASSED = ("PATH", "HOME", "LANG", "TMPDIR")
"""The variables of Podium's environment that each process gets."""
_GIT_SECONDS = 60.0
"""Time limit of each call of git."""
_AS_PODIUM = ("-c", "user.name=Podium", "-c", "user.email=podium@localhost", "-c", "commit.gpgSign=false")


def _read_text(output: str) -> Report:
    return Report(output.strip())


def _read_claude(output: str) -> Report:
    told = json.loads(output)
    told = told[-1] if isinstance(told, list) else told  # with `verbose` in its settings
    models = told["modelUsage"].values()  # `usage` lacks the calls of subagents
    cached = sum(model["cacheReadInputTokens"] for model in models)
    usage = Usage(
        cached + sum(model["inputTokens"] + model["cacheCreationInputTokens"] for model in models),
        sum(model["outputTokens"] for model in models),
        cached,
        sum(model.get("thinkingTokens", 0) for model in models),
    )
    text = told.get("result", "")
    if "structured_output" in told:
        text = compact(told["structured_output"])
    fault = "; ".join(told.get("errors", ())) or text or told["subtype"] if told["is_error"] else ""
    denied = {each["tool_name"] for each in told["permission_denials"]}
    return Report(text, usage, told["total_cost_usd"], fault, ", ".join(sorted(denied)))


def _read_codex(output: str) -> Report:
    text = fault = ""
    usage = None
    for line in output.splitlines():
        match json.loads(line):
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                pass
            case {"type": "turn.completed", "usage": told}:
                read, written = told["input_tokens"], told["output_tokens"]
                usage = Usage(
                    read, written, told["cached_input_tokens"], told.get("reasoning_output_tokens", 0)
                )
            case {"type": "turn.failed", "error": {"message": str(fault)}}:
                pass
    return Report(text, usage, fault=fault)


def _read_gemini(output: str) -> Report:
    told = json.loads(output)
    tokens = [model["tokens"] for model in told["stats"]["models"].values()]
    thoughts = sum(each["thoughts"] for each in tokens)
    usage = Usage(
        sum(each["prompt"] for each in tokens),
        thoughts + sum(each["candidates"] for each in tokens),
        sum(each["cached"] for each in tokens),
        thoughts,
    )
    return Report(told["response"], usage)


@dataclass(frozen=True, slots=True)
class _Preset:
    """How a program is called and read. The prompt is its stdin."""

    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    """The option of its permissions, and the options that replace it."""
    permissions: tuple[str, str] = ("", "")
    """The permissions of a worker that does not act, and of one that acts."""
    budget: str = ""
    """The option with the most that a call may cost."""
    schema: str = ""
    """The option with a JSON schema."""
    keeps: tuple[bytes, ...] = ()
    """Parts of the lines of its output that are read; empty for all lines."""
    read: Callable[[str], Report] = _read_text


Preset = Literal["claude", "codex", "gemini", "acp"]
"""A coding agent whose options and reports `CommandWorker` knows, or any that speaks ACP."""
_PRESETS: Mapping[str | None, _Preset] = {
    None: _Preset(),
    "claude": _Preset(
        ("claude",),
        ("--print", "--output-format", "json"),
        ("--permission-mode", "--dangerously-skip-permissions"),
        ("dontAsk", "acceptEdits"),
        budget="--max-budget-usd",
        schema="--json-schema",
        read=_read_claude,
    ),
    "codex": _Preset(
        ("codex", "exec"),
        ("--json", "--skip-git-repo-check", "-"),
        ("--sandbox", "-s", "--dangerously-bypass-approvals-and-sandbox"),
        ("read-only", "workspace-write"),
        schema="--output-schema",
        keeps=(b'"type":"agent_message"', b'"type":"turn.'),
        read=_read_codex,
    ),
    "gemini": _Preset(
        ("gemini",),
        ("--output-format", "json", "--skip-trust"),
        ("--approval-mode", "--yolo", "-y"),
        ("plan", "auto_edit"),
        read=_read_gemini,
    ),
    "acp": _Preset(),
}


class CommandWorker(Worker):
    """Runs a coding agent, or another program, for each call, and returns its answer.

    The prompt is the program's stdin. The program gets `PATH`, `HOME`, `LANG` and `TMPDIR` of Podium's
    environment, and `env`. Its process group ends with the call, and with Podium. This needs a
    POSIX system.

    Args:
        command: the program and its arguments. For a preset, the default is its program; Podium adds the
            options for JSON reports, permissions, the maximum cost and the schema of the output.
        preset: the coding agent that the program is: `claude` (Claude Code), `codex` or `gemini` (Gemini
            CLI). `acp` means any agent that speaks the Agent Client Protocol; if it asks for a permission,
            Podium gives it if the worker acts. `None` means any program that writes its answer to stdout.
        folder: the working folder.
        card: the worker's card. `Card.most_cost` is required with a price; `claude` also keeps to it.
        worktree: whether each call has its own git worktree, of the folder's `HEAD`, beside the repository.
            If the program changed something, Podium commits it, and the end of an output without a schema
            names the branch and the folder of the worktree; else the worktree is removed.
        env: further environment variables. Their values are secrets.
        acts: whether a call is an action: see `Worker.acts`. If not, a preset may only read, unless the
            command has an option for its permissions.

    Raises:
        ConfigError: there is no command, preset or folder of this name, or the card has a price without
            `most_cost`.
    """

    def __init__(  # noqa: PLR0913 - the settings of a process
        self,
        command: Sequence[str] = (),
        *,
        preset: Preset | None = None,
        folder: str | Path,
        card: Card,
        worktree: bool = False,
        env: Mapping[str, str] | None = None,
        acts: bool = True,
    ) -> None:
        name = card.name
        if preset not in _PRESETS:
            known = ", ".join(get_args(Preset))
            raise ConfigError(f"worker {name!r}: preset {preset!r} is unknown: use one of {known}")
        if preset == "acp" and find_spec("acp") is None:
            raise ConfigError(f"ACP needs agent-client-protocol: {install_hint('podium-conductor[acp]')}")
        if not (command or _PRESETS[preset].command):
            raise ConfigError(f"worker {name!r} has no command: name the program, or a preset")
        if not Path(folder).is_dir():
            raise ConfigError(f"worker {name!r}: the folder {folder} does not exist")
        if card.price not in (None, FREE) and card.most_cost is None:
            told = f"worker {name!r} has a price of tokens, and a call of a program uses any number of them"
            raise ConfigError(f"{told}: set most_cost, the most USD that a call may cost")
        for value in (env or {}).values():
            register(value)
        self.card, self.acts = card, acts
        self.uses_tokens = preset is not None or card.price not in (None, FREE)
        self._command = tuple(command)
        self._preset = _PRESETS[preset]
        self._folder = Path(folder).resolve()
        self._has_worktree = worktree
        self._env = dict(env or {})

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON for a program with an option for a schema."""
        return frozenset(["json"] if self._preset.schema else [])

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the program until it ends.

        Raises:
            WorkerError: the program was not found, failed, was killed, or wrote too much or no report.
        """
        env = {name: os.environ[name] for name in _PASSED if name in os.environ} | self._env
        tree = await _Worktree.added(self._folder, request.caller, env) if self._has_worktree else None
        kept = ""
        try:
            report = await self._run(request, self._folder if tree is None else tree.folder, env)
        except BaseException as error:  # also of a cancelled call: what it changed is kept, and named
            with anyio.CancelScope(shield=True):
                kept = "" if tree is None else await tree.leave()
            if kept and isinstance(error, WorkerError):
                error.args = (f"{error}; {kept}",)
            elif kept:
                _LOG.warning("the call of worker %r was stopped: %s", self.card.name, kept)
            raise
        if tree is not None:
            with anyio.CancelScope(shield=True):
                kept = await tree.leave()
        text = storable(report.text)
        if kept and request.sampling.constraint is None and text.strip():
            text = f"{text}\n\n({kept[0].upper()}{kept[1:]}.)"
        missing = f"it was not permitted to use {report.denied}" if report.denied and self.acts else None
        if request.stream:
            yield text
        yield Completion(text, usage=report.usage or Usage(), cost=report.cost, missing=missing)

    async def _run(self, request: Request, folder: Path, env: Mapping[str, str]) -> Report:
        """Start the program, and return its report."""
        prompt, constraint, who = prompt_text(request.messages), request.sampling.constraint, self.card.name
        with ExitStack() as files:
            command = [*self._arguments(), *self._schema_options(constraint, files)]
            if constraint is not None and self._preset.schema not in command:
                schema = compact(constraint.value)
                prompt += f"\n\nAnswer only with JSON that fits this JSON schema:\n{schema}"
            async with started(command, folder, env, who) as process:
                if self._preset is _PRESETS["acp"]:
                    from podium.workers.acp import converse  # noqa: PLC0415 - the SDK may not be installed

                    return await converse(process, prompt, folder, who, may_act=self.acts)
                return self._report(await talk(process, prompt, self._preset.keeps))

    def _arguments(self) -> list[str]:
        """Return the program and its arguments, without those of the request."""
        preset, most = self._preset, self.card.most_cost
        program, *given = self._command or preset.command[:1]
        found = [program, *preset.command[1:], *given, *preset.options]
        if preset.modes and not any(option.partition("=")[0] in preset.modes for option in given):
            found += [preset.modes[0], preset.permissions[self.acts]]
        if preset.budget and most:
            found += [preset.budget, f"{most:f}"]
        return found

    def _schema_options(self, constraint: Constraint | None, files: ExitStack) -> list[str]:
        """Return the options for a schema: its text for Claude Code, a file for Codex, if it is strict."""
        if constraint is None:
            return []
        option, schema = self._preset.schema, compact(constraint.value)
        if option == "--json-schema":
            return [option, schema]
        if not is_strict(constraint.value):
            return []
        file = files.enter_context(NamedTemporaryFile("w", encoding="utf-8"))  # noqa: SIM115 - by the stack
        file.write(schema)
        file.flush()
        return [option, file.name]

    def _report(self, ended: Ended) -> Report:
        """Return the report of a process that has ended, or raise the error."""
        who, said = f"worker {self.card.name!r}", f": {quoted(ended.errors)}" if ended.errors else ""
        if ended.is_too_long:
            told = f"{who} wrote more than {MOST_BYTES:,} bytes to its standard output"
            raise AnswerTooLong(told, maybe_paid=True)
        if ended.code < 0:
            raise WorkerBroken(f"{who} was killed by signal {-ended.code}{said}", maybe_paid=True)
        report = Report()
        if ended.code == 0 or ended.output.startswith(("{", "[")):
            broken = partial(WorkerBroken, maybe_paid=True)
            with Boundary(f"reading the report of {who}", broken, is_library=True):
                report = self._preset.read(ended.output)
        if ended.code or report.fault:
            said = f": {quoted(report.fault)}" if report.fault else said
            is_free = report.usage == Usage()
            raise AgentFailed(
                f"{who} failed with exit code {ended.code}{said}",
                maybe_paid=not is_free,
                usage=None if is_free else report.usage,
                cost=report.cost,
            )
        return report


class _GitFailed(Exception):
    """Git failed; the argument says how."""


@dataclass(frozen=True, slots=True)
class _Worktree:
    """A git worktree of one call, with a branch."""

    folder: Path
    """The folder in it that is the worker's folder in the repository."""
    _top: Path
    _origin: Path
    _branch: str
    _env: Mapping[str, str]

    @classmethod
    async def added(cls, folder: Path, caller: Caller | None, env: Mapping[str, str]) -> "_Worktree":
        """Add the worktree of a call; a worktree that is there was made by the same call."""
        name = uuid4().hex
        if caller is not None:
            place = f"{caller.round}-{caller.path or caller.step}-{caller.attempt}"
            plain = re.sub(r"[^A-Za-z0-9]+", "-", f"{caller.run_id[:40]}-{place}").strip("-")
            name = f"{plain}-{sha256(f'{caller.run_id} {place}'.encode()).hexdigest()[:8]}"
        try:
            origin = Path((await _git(env, folder, "rev-parse", "--show-toplevel")).strip())
            top = origin.with_name(f"{origin.name}.worktrees") / name
            if not top.is_dir():
                await _git(env, folder, "worktree", "add", "--quiet", "-b", f"podium/{name}", str(top))
        except _GitFailed as error:
            raise WorkerRefused(f"there is no git worktree of {folder}: {error}") from error
        return cls(top / folder.relative_to(origin), top, origin, f"podium/{name}", env)

    async def leave(self) -> str:
        """Commit what was changed, or remove the worktree if nothing was; return where the changes are."""
        git = partial(_git, self._env)
        try:
            await git(self._top, "add", "--all")
            if await git(self._top, "status", "--porcelain"):
                await git(self._top, *_AS_PODIUM, "commit", "--quiet", "--no-verify", "-m", self._branch)
            head = await git(self._origin, "rev-parse", "HEAD")
            if await git(self._top, "rev-list", "--max-count=1", "HEAD", "--not", head.strip()):
                return f"the changes are on the branch {self._branch}, in the worktree {self._top}"
            await git(self._origin, "worktree", "remove", "--force", str(self._top))
            await git(self._origin, "branch", "--quiet", "-D", self._branch)
        except _GitFailed as error:
            return f"changes may be in the worktree {self._top}, where git failed: {error}"
        return ""


async def _git(env: Mapping[str, str], folder: Path, *arguments: str) -> str:
    """Run git, and return its output; raise `_GitFailed`."""
    try:
        with anyio.fail_after(_GIT_SECONDS):
            done = await anyio.run_process(["git", *arguments], cwd=folder, env=env, check=False)
    except (OSError, TimeoutError) as error:
        raise _GitFailed(quoted(str(error)) or f"it did not end within {_GIT_SECONDS:g} s") from error
    if done.returncode:
        raise _GitFailed(quoted(done.stderr.decode("utf-8", "replace")))
    return done.stdout.decode("utf-8", "replace")
