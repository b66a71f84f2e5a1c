"""`podium keys`: create, list, show, update, rotate and revoke the API keys of a server."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, fields, replace
from getpass import getuser
from pathlib import Path
from time import time
from typing import Annotated, Any, TypeVar

import anyio
import typer
from rich.table import Column, Table
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath, above_zero, local_time, span
from podium.cli.root import command_group
from podium.cli.screen import Screen, counted, money, reporting
from podium.config import find_config, load_config
from podium.config.load import find_journal
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium.types.plan import nearest
from podium_server.keys.account import BILLION, day_of
from podium_server.keys.key import ROLES, Key, KeyRules, Role, check_policy
from podium_server.keys.store import COMMAND, Day, KeyStore, Token

T = TypeVar("T")
_DAY = 86400.0
_SHOWN_DAYS = 31

keys = command_group("keys")
Name = Annotated[str, typer.Argument(metavar="KEY", help="The name or the id of the key.")]


def _names(text: str | None) -> tuple[str, ...] | None:
    """Parse names that are separated by commas."""
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _list(told: str) -> Any:
    return typer.Option(metavar="NAMES", help=told)


def _role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise typer.BadParameter(f"{text!r} is not a role: write one of {', '.join(ROLES)}")


@keys.callback()
def about() -> None:
    """Manage the API keys of a server."""


Models = Annotated[str | None, _list("Models that it may call.")]
DayCost = Annotated[float | None, typer.Option(metavar="USD", help="Budget of a day in UTC.")]
MonthCost = Annotated[float | None, typer.Option(metavar="USD", help="Budget of a month in UTC.")]
RunCost = Annotated[float | None, typer.Option(metavar="USD", help="Maximum cost of one run.")]
Rpm = Annotated[int | None, typer.Option(help="Maximum requests per minute.")]
Tpm = Annotated[int | None, typer.Option(help="Maximum tokens per minute.")]
AtOnce = Annotated[int | None, typer.Option(help="Maximum requests at the same time.")]
Labels = Annotated[str | None, _list("Labels of each query.")]
Allow = Annotated[str | None, _list("Only these workers may run steps.")]
Deny = Annotated[str | None, _list("These workers must not see any data.")]
Regions = Annotated[str | None, _list("Labels: workers need one of them.")]
Steps = Annotated[int | None, typer.Option(help="Maximum steps of a plan.")]
Retention = Annotated[
    int | None,
    typer.Option(metavar="DAYS", help="Delete prompts and answers after these days; 0 stores none."),
]
OfRole = Annotated[
    Role | None,
    typer.Option(
        parser=_role, metavar="ROLE", help=f"One of {', '.join(ROLES)}; each includes those before it."
    ),
]
Expires = Annotated[
    float | None,
    typer.Option(parser=span, callback=above_zero, metavar="SPAN", help="End of the key: in 12h, 30d, 8w."),
]


@keys.command()
def create(  # noqa: PLR0913 - one parameter for each rule of a key
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new name, for people.")],
    *,
    models: Models = None,
    day: DayCost = None,
    month: MonthCost = None,
    run: RunCost = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    concurrency: AtOnce = None,
    labels: Labels = None,
    allow: Allow = None,
    deny: Deny = None,
    regions: Regions = None,
    steps: Steps = None,
    retention: Retention = None,
    role: OfRole = None,
    expires: Expires = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Create a key, and write it to stdout. It is stored as a hash and cannot be shown again."""
    given = _given(locals())
    with reporting() as screen:
        rules = KeyRules(**given)
        _check(screen, rules, config)
        until = None if expires is None else time() + expires
        key, token = _with(config, lambda store: store.create(name, rules, expires=until, by=_user()))
        _show_once(screen, key, token, as_json=as_json)
        screen.note(f"podium: created the key {key.name!r} ({key.key_id}): store it, it is shown only once")


@keys.command()
def update(  # noqa: PLR0913 - as above
    name: Name,
    *,
    models: Models = None,
    day: DayCost = None,
    month: MonthCost = None,
    run: RunCost = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    concurrency: AtOnce = None,
    labels: Labels = None,
    allow: Allow = None,
    deny: Deny = None,
    regions: Regions = None,
    steps: Steps = None,
    retention: Retention = None,
    role: OfRole = None,
    expires: Expires = None,
    without: Annotated[str | None, _list("Options whose limits are removed, such as day,rpm.")] = None,
    config: ConfigPath = None,
) -> None:
    """Change what a key may do; what is not named stays. Servers follow within 5 seconds."""
    given = _given(locals())
    with reporting() as screen:
        removed = _names(without) or ()
        for option in removed:
            if option not in (*_RULES, "expires"):
                raise ConfigError(f"--without {option}: write names of {', '.join((*_RULES, 'expires'))}")
        former = {_RULES[option]: _NO_RULES[_RULES[option]] for option in removed if option in _RULES}

        async def updated(store: KeyStore) -> Key:
            key = await store.key(name)
            rules = replace(key.rules, **{**former, **given})
            _check(screen, rules, config)
            until = None if "expires" in removed else key.expires
            until = until if expires is None else time() + expires
            return await store.update(key.key_id, rules, expires=until, by=_user())

        key = _with(config, updated)
        screen.note(f"podium: updated the key {key.name!r} ({key.key_id})")


_RULES = {
    "models": "models",
    "day": "day_cost",
    "month": "month_cost",
    "run": "run_cost",
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
    "concurrency": "concurrency",
    "labels": "labels",
    "allow": "allowed",
    "deny": "denied",
    "regions": "regions",
    "steps": "steps",
    "retention": "retention_days",
    "role": "role",
}
"""The fields of the rules, by their options."""
_NO_RULES = {each.name: each.default for each in fields(KeyRules)}


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the rules that the options of a command name."""
    lists = ("models", "labels", "allow", "deny", "regions")
    given = {option: options[option] for option in _RULES if options[option] is not None}
    return {_RULES[name]: _names(value) if name in lists else value for name, value in given.items()}


def _check(screen: Screen, rules: KeyRules, config: Path | None) -> None:
    """Check the names of workers, labels and models in the rules of a key."""
    if rules.policy is not None or rules.labels:
        check_policy(load_config(find_config(config)), rules)
    screen.warn(_unchecked_models(config, rules.models or ()))


def _user() -> str:
    """Return who gives the command, for the log."""
    try:
        return f"{COMMAND}: {getuser()}"
    except (OSError, KeyError):  # the user has no name
        return COMMAND


@keys.command("log")
def show_log(*, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Show who changed which key when, and check that nothing was altered."""
    with reporting() as screen:
        changes = _with(config, lambda store: store.changes())
        if as_json:
            screen.result_json([asdict(change) for change in changes])
            return
        for change in changes:
            told = f"{local_time(change.at)}  {change.what} {change.key_id}  {change.who}  {change.details}"
            screen.result(screen.shown(told.rstrip()))


@keys.command("list")
def list_keys(*, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """List all keys with their costs of today and of this month."""
    with reporting() as screen:
        rows = _with(config, _read_all)
        if as_json:
            screen.result_json([_facts(key) | _costs(days) for key, days in rows])
        elif rows:
            screen.draw(_table(screen, rows))
        else:
            screen.note("podium: there are no keys: `podium keys create NAME` creates one")


@keys.command()
def show(name: Name, *, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Show what a key may do, and what it spent each day."""
    with reporting() as screen:
        key, tokens, days = _with(config, lambda store: _read(store, name))
        if as_json:
            spent = [asdict(day) | {"cost": day.cost / BILLION} for day in days]
            screen.result_json(_facts(key) | {"tokens": [asdict(token) for token in tokens], "days": spent})
            return
        screen.result("\n".join(_lines(key, tokens)))
        for day in days:
            amounts = f"{day.input_tokens:,} tokens read, {day.output_tokens:,} written"
            amounts += f" ({day.estimated_tokens:,} of them estimated)" if day.estimated_tokens else ""
            told = f"{counted(day.requests, 'request')}, {amounts}, {money(day.cost / BILLION)}"
            screen.result(f"  {day.day}  {told}")


@keys.command()
def revoke(name: Name, *, config: ConfigPath = None) -> None:
    """Revoke a key. New requests are refused within 5 seconds, and before their run starts at once."""
    with reporting() as screen:
        key = _with(config, lambda store: store.revoke(name, by=_user()))
        screen.note(f"podium: revoked the key {key.name!r} ({key.key_id})")


@keys.command()
def rotate(
    name: Name,
    *,
    grace: Annotated[
        float | None,
        typer.Option(parser=span, metavar="SPAN", help="How long the former text stays valid: 12h, 2d."),
    ] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Replace the secret text of a key, and write the new one to stdout. Its limits and costs stay."""
    with reporting() as screen:
        key, token = _with(config, lambda store: store.rotate(name, grace=grace or 0.0, by=_user()))
        _show_once(screen, key, token, as_json=as_json)
        former = "is invalid now" if grace is None else f"is valid until {local_time(time() + grace)}"
        screen.note(f"podium: rotated the key {key.name!r} ({key.key_id}); the former text {former}")


def _with(config: Any, work: Callable[[KeyStore], Awaitable[T]]) -> T:
    journal = find_journal(config)
    if not isinstance(journal, SqlJournal):
        raise ConfigError("keys need a journal in a database")
    store = KeyStore(journal)

    async def working() -> T:
        async with store:
            return await work(store)

    return anyio.run(working)


def _unchecked_models(path: Path | None, names: Sequence[str]) -> Sequence[str]:
    """Return a warning if the models cannot be checked."""
    from podium_server.models import model_sections  # noqa: PLC0415 - the import takes time

    if not names:
        return ()
    try:
        file = find_config(path)
        known = list(model_sections(load_config(file)))
    except ConfigError as error:
        return (f"--models was not checked, because the config cannot be read: {error}",)
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"the models are {', '.join(known)}"
            raise ConfigError(f"--models: {file} has no model {name!r}: {hint}")
    return ()


async def _read_all(store: KeyStore) -> list[tuple[Key, Sequence[Day]]]:
    month = f"{day_of(time())[:8]}01"
    return [(key, await store.days(key.key_id, month)) for key in await store.keys()]


async def _read(store: KeyStore, name: str) -> tuple[Key, Sequence[Token], Sequence[Day]]:
    key = await store.key(name)
    since = day_of(time() - _SHOWN_DAYS * _DAY)
    return key, await store.tokens(key.key_id), await store.days(key.key_id, since)


def _show_once(screen: Screen, key: Key, token: str, *, as_json: bool) -> None:
    screen.secret(json.dumps(_facts(key) | {"key": token}, indent=2) if as_json else token)


def _facts(key: Key) -> dict[str, Any]:
    """Return the facts of a key as JSON data."""
    return asdict(key)


def _costs(days: Sequence[Day]) -> dict[str, float]:
    today = day_of(time())
    of_today = sum(day.cost for day in days if day.day == today)
    return {"cost_today": of_today / BILLION, "cost_this_month": sum(day.cost for day in days) / BILLION}


def _table(screen: Screen, rows: Sequence[tuple[Key, Sequence[Day]]]) -> Table:
    heads = ("name", "id", "state", "role", "today", "this month", "last used")
    columns = (Column(head, overflow="fold") for head in heads)
    table = Table(*columns, box=None, header_style="dim", pad_edge=False)
    for key, days in rows:
        costs = _costs(days)
        table.add_row(
            Text(screen.shown(key.name)),
            key.key_id,
            _state(key),
            key.rules.role,
            _of(costs["cost_today"], key.rules.day_cost),
            _of(costs["cost_this_month"], key.rules.month_cost),
            "never" if key.last_used is None else local_time(key.last_used),
        )
    return table


def _of(cost: float, most: float | None) -> str:
    return money(cost) if most is None else f"{money(cost)} of {money(most)}"


def _state(key: Key) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= time() else "valid"


def _lines(key: Key, tokens: Sequence[Token]) -> list[str]:
    rules = asdict(key.rules)
    lines = [f"{key.name} ({key.key_id}), {_state(key)}, created {local_time(key.created)}"]
    if key.expires is not None:
        lines.append(f"expires: {local_time(key.expires)}")
    for name, value in rules.items():
        if value is not None and value != ():
            told = ", ".join(value) if isinstance(value, tuple) else value
            lines.append(f"{name.replace('_', ' ')}: {told}")
    for token in tokens:
        end = "" if token.expires is None else f", valid until {local_time(token.expires)}"
        lines.append(f"text ending with {token.hint}, created {local_time(token.created)}{end}")
    return lines
