"""`podium.toml`: what it may say, and what is told when it says something else."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from podium import Price
from podium.cli.root import app
from podium.config import find_config, load_config
from podium.config.load import find_journal
from podium.errors import ConfigError
from podium.types import RunEnded, RunStarted
from podium.workers.rates import KindEntry, MeasuredFile, RateEntry, identity_of, write_measured

GOOD = """\
[endpoints.local]
base_url = "http://localhost:8000/v1"
provider = "vllm"

[workers.solver]
endpoint = "local"
model = "qwen"

[planner]
worker = "solver"
"""
CASES = (Path(__file__).parent / "wrong_configs.txt").read_text().strip().split("\n\n")
"""Changes of `GOOD`: lines `-` are replaced by lines `+`, which by themselves come before `[planner]`; lines
`>` are the error."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "podium.toml"


def test_worker_has_what_its_table_says(path: Path) -> None:
    path.write_text(
        GOOD.replace(
            'model = "qwen"',
            'model = "qwen"\ndescription = "Solves."\nprice = { input = 1, output = 2.5 }\n'
            'context_window = 32768\nlabels = ["eu"]\nconcurrency = 3\nparts = ["image_url"]\n'
            "sampling = { temperature = 0.2, max_tokens = 100 }\n",
        )
    )
    worker = load_config(path).worker("solver")
    assert (worker.model, worker.card.name, worker.card.description) == ("qwen", "solver", "Solves.")
    assert worker.card.price == Price(input=1, output=2.5)
    assert (worker.card.context_window, worker.card.concurrency) == (32768, 3)
    assert (worker.card.labels, worker.card.parts) == (frozenset({"eu"}), frozenset({"image_url"}))
    assert (worker.sampling.temperature, worker.sampling.max_tokens) == (0.2, 100)
    path.write_text(GOOD)
    assert load_config(path).worker("solver").card.price is None


def test_unreadable_files_are_told(path: Path) -> None:
    for told, make in (
        ("cannot be read", lambda: None),
        (":2: invalid UTF-8", lambda: path.write_bytes(b"# fine\n# \xff\n")),
        ("is longer than", lambda: path.write_text("#" * (2**20 + 1))),
        ("is nested too deeply", lambda: path.write_text("x = " + "[" * 100_000)),
        ("are nested too deeply", lambda: path.write_text("limits = " + "[" * 250 + "]" * 250)),
    ):
        make()
        with pytest.raises(ConfigError, match=told):
            load_config(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(path.parent)


def test_where_the_config_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    with pytest.raises(ConfigError, match="podium init"):
        find_config()
    users = tmp_path / "home" / "podium" / "podium.toml"
    users.parent.mkdir(parents=True)
    users.touch()
    assert find_config() == users
    Path("podium.toml").touch()
    assert find_config() == Path("podium.toml")
    monkeypatch.setenv("PODIUM_CONFIG", "elsewhere.toml")
    assert (find_config(), find_config("named.toml")) == (Path("elsewhere.toml"), Path("named.toml"))


def test_all_of_a_hosted_table_reaches_the_conductor(path: Path) -> None:
    head = GOOD.partition("[workers")[0] + '[hosted]\nendpoint = "local"\n'
    path.write_text(head + 'model = "other"\napi = "chat"\neffort = "max"\nmax_tokens = 5\nseconds = 9\n')
    conductor = load_config(path).conductor()
    (worker,) = conductor.pool
    settings = (worker.model, worker.api, worker.sampling.effort, worker.max_tokens)
    assert settings == ("other", "chat", "max", 5)
    assert (conductor.limits.seconds, conductor.limits.attempt_seconds) == (9.0, 9.0)
    path.write_text(head + 'effort = "low"\n')
    with pytest.raises(ConfigError, match=r":7: 'effort' in \[hosted\] is 'low': write one of 'high'"):
        load_config(path)


def test_where_runs_are_recorded(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(GOOD)
    assert load_config(path).journal() is not None
    path.write_text(GOOD + "[journal]\noff = true\n")
    assert load_config(path).journal() is None
    with pytest.raises(ConfigError, match=r"podium\.toml: runs are not recorded"):
        find_journal(path)
    path.write_text('[journal]\npath = "runs.db"\n')
    assert find_journal(path) is not None
    path.write_text("[journal]\nurl = 'mysql://h/d'\n")
    with pytest.raises(ConfigError, match=r"podium\.toml:1: "):
        find_journal(path)
    monkeypatch.setenv("RUNS_URL", "sqlite:///elsewhere.db")
    path.write_text('[journal]\nurl_env = "RUNS_URL"\n')
    assert find_journal(path) is not None
    path.unlink()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    assert find_journal() is not None


TEAM = '[workers.adder]\ntype = "calculator"\n[planner]\ntype = "rule"\n'


@pytest.mark.anyio
async def test_a_conductor_in_the_pool_of_another(tmp_path: Path) -> None:
    """It has the planner and the workers of its own file, and its runs are nested in those of the other."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "sums.toml").write_text(TEAM)
    (tmp_path / "plan.txt").write_text('{"worker": 0, "subtask": "What is 2 * 21?", "access": []}')
    path = tmp_path / "podium.toml"
    path.write_text(
        '[workers.sums]\ntype = "conductor"\nconfig = "teams/sums.toml"\ndescription = "Adds."\n'
        'labels = ["eu"]\n[planner]\ntype = "fixed"\nplan = "plan.txt"\n[journal]\npath = "runs.db"\n'
    )
    conductor = load_config(path).conductor()
    card = conductor.pool.cards[0]
    assert (card.name, card.description, card.labels) == ("sums", "Adds.", frozenset({"eu"}))
    events = [event async for event in conductor.stream("How much is it?")]
    assert [event.workers for event in events if isinstance(event, RunStarted)] == [("sums",), ("adder",)]
    assert [event.result.answer for event in events if isinstance(event, RunEnded)] == ["2 * 21 = 42"] * 2
    (tmp_path / "teams" / "sums.toml").write_text(TEAM.replace("adder", "ad der"))
    with pytest.raises(ConfigError, match=r"podium.toml:3: .*sums.toml:1: "):
        load_config(path)
    back = '[workers.back]\ntype = "conductor"\nconfig = "../podium.toml"\ndescription = "."\n'
    (tmp_path / "teams" / "sums.toml").write_text(TEAM + back)
    with pytest.raises(ConfigError, match=r"podium.toml:3: .*sums.toml:7: .*in its own pool"):
        load_config(path)


def _lines(case: str, mark: str) -> str:
    return "".join(line[1:] + "\n" for line in case.split("\n") if line[0] == mark)


def test_the_errors_of_wrong_configs(path: Path, tmp_path: Path) -> None:
    for case in CASES:
        old, new = _lines(case, "-"), _lines(case, "+")
        assert old in GOOD
        path.write_text(GOOD.replace(old, new, 1) if old else GOOD.replace("[planner]", f"{new}[planner]"))
        with pytest.raises(ConfigError) as caught:
            load_config(path).conductor()
        told = str(caught.value).replace(f"{path}:", "").replace(str(tmp_path), "FOLDER")
        assert f"{told}\n" == _lines(case, ">")


MEASURED = GOOD.replace("localhost:8000", "127.0.0.1:9").replace('worker = "solver"', 'type = "rule"')
MEASURED += '[workers.other]\ntype = "calculator"\n[pool]\nmeasured = "measured.json"\n'


def _measured(identity: str, worker: str = "solver") -> MeasuredFile:
    rates: Any = {"right": 4.0, "prior": 0.5, "rate": 0.6875, "low": 0.4, "high": 0.9, "cost": None}
    rate = RateEntry(identity=identity, answers=5, **rates)
    day = date(2026, 11, 22)
    entry = KindEntry(measured_on=day, fingerprint="f", questions=("2 + 2?",), rates={worker: rate})
    return MeasuredFile(kinds={"sums": entry})


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    found = tmp_path / "podium.toml"
    found.write_text(MEASURED)
    write_measured(_measured(identity_of(load_config(found).worker("solver"))), tmp_path / "measured.json")
    return found


def test_cards_carry_what_was_measured(measured: Path) -> None:
    config = load_config(measured)
    assert config.measured_path == measured.parent / "measured.json"
    solver, other = config.conductor().pool.cards
    (rate,) = solver.measured
    assert (rate.kind.name, rate.kind.questions, rate.rate) == ("sums", ("2 + 2?",), 0.6875)
    assert (rate.answers, rate.right, rate.measured_on) == (5, 4.0, date(2026, 11, 22))
    assert other.measured == ()


def test_rates_of_another_model_are_refused(measured: Path) -> None:
    measured.write_text(MEASURED.replace('model = "qwen"', 'model = "newer"'))
    with pytest.raises(ConfigError, match=r"podium\.toml:14: the worker 'solver' had another model.*'sums'"):
        load_config(measured).conductor()
    checked = CliRunner().invoke(app, ["check", "--config", str(measured)], env={"COLUMNS": "200"})
    assert "measured.json has rates of solver on sums; the latest on 2026-11-22" in checked.stdout


WRONG_FILES = (
    (None, "does not exist: `podium evals tune` writes it"),
    ("[1]", "is not a file of measured rates: "),
    ('{"version": 1, "kinds": {"sums": {"rates": {}}}}', "kinds.sums.measured_on"),
    (_measured("i").model_dump_json().replace("0.6875", "1.5"), "kinds.sums.rates.solver.rate"),
)


def test_a_wrong_file_is_told(measured: Path) -> None:
    file = measured.parent / "measured.json"
    for content, told in WRONG_FILES:
        file.unlink() if content is None else file.write_text(content)
        with pytest.raises(ConfigError) as caught:
            load_config(measured).conductor()
        assert str(caught.value).startswith(f"{measured}:14: {file}")
        assert told in str(caught.value)
