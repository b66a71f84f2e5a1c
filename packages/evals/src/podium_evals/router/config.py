"""The planners that `podium evals tune` writes into `podium.toml`.

Imports are few, because any command may read the tables.
"""

import json
import re
import tomllib
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from podium.config import AddedPlanner, Config
from podium.config.source import why_unreadable, why_unwritable
from podium.errors import ConfigError, PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Plan, Step
from podium.types.references import literal
from podium.workers import Worker
from podium.workers.rates import MeasuredFile, identity_of, kind_of, measured_kinds, rate_on, write_measured

if TYPE_CHECKING:
    from podium_evals.router.router import Router


class RouterSection(AddedPlanner):
    """`[planner]` of type `router`: a router, which `podium evals tune` made, chooses the workers."""

    type: Literal["router"]
    """Kind of the planner."""
    path: str
    """File of the router. Relative paths start at the folder of `podium.toml`."""

    def build(self, folder: Path, workers: Sequence[str]) -> Planner:
        """Build the planner."""
        from podium_evals.errors import RouterInvalid  # noqa: PLC0415 - scikit-learn is slow to import
        from podium_evals.router import Router, RouterPlanner  # noqa: PLC0415 - as above

        path = folder / Path(self.path).expanduser()
        try:
            router = Router.load(path)
        except RouterInvalid as error:
            raise ConfigError(f"'path' in [planner]: {error}") from error
        if missing := [name for name in router.facts.workers if name not in workers]:
            known = ", ".join(router.facts.workers)
            raise ConfigError(
                f"'path' in [planner]: {path} was trained for {known}, but there is no "
                f"[workers.{missing[0]}]: train the router for the workers of this config "
                "(`podium evals tune`)"
            )
        return RouterPlanner(router)


VOTE = "vote"


class TunedPlanner(Planner):
    """Sends each question to the same workers, or to the best worker of its kind."""

    name = "tuned"

    def __init__(self, workers: Sequence[str], *, by_kind: bool = False) -> None:
        if not workers:
            raise ConfigError("workers is empty: name the workers that answer")
        self._workers = tuple(workers)
        self._by_kind = by_kind

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write the plan."""
        question = request.query[-1].text
        names = [card.name for card in request.cards]
        chosen, why = self._workers, f"{', '.join(self._workers)}: measured by podium evals tune"
        kind = kind_of(question, measured_kinds(request.cards)) if self._by_kind else None
        if kind is not None:
            rates = {card.name: rate.rate for card in request.cards if (rate := rate_on(card, kind))}
            chosen = (max(rates, key=lambda name: rates[name]),)
            why = f"{chosen[0]}: the best rate on {kind.name!r}, {rates[chosen[0]]:.2f}"
        needed = (*chosen, VOTE) if len(chosen) > 1 else chosen
        if missing := [name for name in needed if name not in names]:
            raise PlannerError(
                f"the plan needs {missing[0]!r}, but the pool has {', '.join(names)}", code="planner_refused"
            )
        asked = "Answer the question." if request.shows_question else literal(question)
        steps = [Step(names.index(name), asked) for name in chosen]
        if len(chosen) > 1:
            steps.append(Step(names.index(VOTE), "Choose.", tuple(range(len(chosen)))))
        text = write_plan(Plan(tuple(steps)), "rows")
        if request.stream:
            yield text
        yield PlanText(text=text, why=why, cost=0.0)


class TunedSection(AddedPlanner):
    """`[planner]` of type `tuned`, which `podium evals tune` writes: the same workers for each question."""

    type: Literal["tuned"]
    """Kind of the planner."""
    ask: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the workers that answer; of several answers, the most frequent one wins."""
    by_kind: bool = False
    """Whether a question of a measured kind goes to the worker with the best rate."""

    def build(self, folder: Path, workers: Sequence[str]) -> Planner:  # noqa: ARG002 - there are no paths
        """Build the planner."""
        if missing := [name for name in self.ask if name not in workers]:
            raise ConfigError(f"'ask' in [planner]: there is no [workers.{missing[0]}]")
        return TunedPlanner(self.ask, by_kind=self.by_kind)

    def workers(self, folder: Path) -> Sequence[Worker]:  # noqa: ARG002 - no file is read
        """Return the worker that counts votes, if several workers are asked."""
        if len(self.ask) == 1:
            return ()
        from podium_evals.grading.answers import final_answer  # noqa: PLC0415 - used by votes only
        from podium_evals.recorded import Vote  # noqa: PLC0415 - as above

        return (Vote(read=final_answer),)


MEASURED, ROUTER = "measured.json", "router.npz"
"""The files beside `podium.toml`."""
BEFORE = ".before-tune"
"""The end of the name of the copy of `podium.toml` as it was."""
_TOLD = "# Written by `podium evals tune`."
_HEAD, _HEADER = "[]", re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `podium.toml` says for a way to answer."""

    ask: tuple[str, ...] = ()
    """The workers that answer each question; empty for a router."""
    by_kind: bool = False
    """Whether a question of a measured kind goes to the worker with the best rate in `measured`."""
    measured: MeasuredFile | None = None
    router: "Router | None" = None
    next_best: tuple[str, ...] = ()
    """The workers that are asked after an empty answer; empty if the same worker is asked again."""

    @property
    def planner(self) -> Mapping[str, Any]:
        """The table `[planner]`."""
        if self.router is not None:
            return {"type": "router", "path": ROUTER}
        return {"type": "tuned", "ask": list(self.ask)} | ({"by_kind": True} if self.by_kind else {})


def write_settings(settings: Settings, config: Config) -> Sequence[str]:
    """Write the settings into the file of a config, and the files that they name beside it.

    The keys of `[planner]` are replaced. `next_best` and `ask_again` of `[retry]` are, too, if the way uses
    them or an earlier tuning wrote them. Questions that are routed by kind need `measured` of `[pool]`, which
    is added. The file before the first tuning is kept with the ending `.before-tune`.
    """
    path = config.path
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {why_unreadable(error)}") from error
    changed = edited(text, settings)
    written = [path.name]
    try:
        if settings.measured is not None:
            written.append(write_rates(settings.measured, config))
        if settings.router is not None:
            settings.router.save(path.parent / ROUTER)
            written.append(ROUTER)
        copy = path.with_name(path.name + BEFORE)
        if not (copy.exists() and _is_tuned(text)):  # the copy is the file of its author
            copy.write_text(text, "utf-8")
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(changed, "utf-8")
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
    return written


def write_rates(measured: MeasuredFile, config: Config) -> str:
    """Write rates into the file that a config names, with the digests of its workers; return its name."""
    path = config.measured_path or config.path.parent / MEASURED
    names = {name for entry in measured.kinds.values() for name in entry.rates}
    identities = {name: identity_of(config.worker(name)) for name in sorted(names)}
    kinds = measured.model_dump()
    for entry in kinds["kinds"].values():
        for name, rate in entry["rates"].items():
            rate["identity"] = identities[name]
    write_measured(MeasuredFile.model_validate(kinds), path)
    return path.name


def edited(text: str, settings: Settings) -> str:
    """Return the text of `podium.toml` with the settings; all comments stay."""
    retry: dict[str, Any] = {}
    if settings.next_best:
        retry = {"next_best": list(settings.next_best), "ask_again": False}
    before = tomllib.loads(text)
    pool = {"measured": MEASURED} if settings.by_kind and "measured" not in before.get("pool", {}) else {}
    owned = ("next_best", "ask_again") if retry or _is_tuned(text) else ()
    parts = _with_keys(_parts(text), "retry", retry, owned)
    parts = _with_keys(_with_keys(parts, "pool", pool, ()), "planner", settings.planner)
    if not _is_tuned(text):
        head = next(place for place, each in enumerate(parts) if (each.table, each.key) == ("planner", _HEAD))
        parts.insert(head, _Part(_TOLD))
    found = "\n".join(each.text for each in parts) + "\n"
    kept = {key: value for key, value in before.get("retry", {}).items() if key not in owned}
    changes = {
        "planner": dict(settings.planner),
        "retry": kept | retry,
        "pool": before.get("pool", {}) | pool,
    }
    after = _parsed(found)
    if after is None or _full(before | changes) != _full(after):
        raise ConfigError(
            "the file cannot be edited line by line. Write these lines yourself, in place of [planner]:\n"
            + "\n".join(
                line
                for name, keys in (("planner", settings.planner), ("retry", retry), ("pool", pool))
                for line in (f"[{name}]", *_lines(keys))
            )
        )
    return found


def _is_tuned(text: str) -> bool:
    return _TOLD in text.splitlines()


def _full(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in tables.items() if table}


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A header, a key with its value, or a line without either."""

    text: str
    table: str = ""
    key: str = ""
    """`_HEAD` for a header."""


def _parts(text: str) -> list[_Part]:
    found: list[_Part] = []
    table, begun = "", list[str]()
    for line in text.splitlines():
        begun.append(line)
        whole = "\n".join(begun)
        parsed = _parsed(whole)
        if parsed is None:
            continue  # the value has more lines
        header = _HEADER.match(whole)
        table = re.sub(r"[\s\"']", "", header[1]) if header else table
        found.append(_Part(whole, table, _HEAD if header else next(iter(parsed), "")))
        begun.clear()
    return found


def _with_keys(
    parts: Sequence[_Part], name: str, keys: Mapping[str, Any], owned: Collection[str] | None = None
) -> list[_Part]:
    """Return the parts with keys in a table, in place of the keys that this program owns."""

    def is_owned(part: _Part) -> bool:
        if owned is None and part.table.startswith(f"{name}."):
            return part.key != ""
        return part.table == name and part.key not in ("", _HEAD) and (owned is None or part.key in owned)

    found: list[_Part] = []
    left, place = dict(keys), 0
    for part in parts:
        if part.table == name and part.key in left:
            comments = "".join(f"  {each}" for each in _comments(part.text))
            (line,) = _lines({part.key: left.pop(part.key)})
            found.append(_Part(line + comments, name, part.key))
        else:
            found += [_Part(each, name) for each in _comments(part.text)] if is_owned(part) else [part]
        if part.table == name and part.key in (_HEAD, *keys):
            place = len(found)
    if left and not place:
        found += [_Part(""), _Part(f"[{name}]", name, _HEAD)]
        place = len(found)
    found[place:place] = [_Part(line, name) for line in _lines(left)]
    return found


def _comments(text: str) -> Iterator[str]:
    """Yield the comments in a part: what can be cut from the end of a line without another value."""
    lines, parsed = text.split("\n"), _parsed(text)
    for number, line in enumerate(lines):
        for place, sign in enumerate(line):
            if (
                sign == "#"
                and _parsed("\n".join([*lines[:number], line[:place], *lines[number + 1 :]])) == parsed
            ):
                yield line[place:]
                break


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]
