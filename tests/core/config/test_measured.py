"""`[pool] measured`: the file of measured rates, and what it does to the cards of a pool."""

from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from podium.cli.root import app
from podium.conductor import Conductor
from podium.config import load_config
from podium.errors import ConfigError
from podium.workers.rates import (
    KindEntry,
    MeasuredFile,
    RateEntry,
    identity_of,
    write_measured,
)

CONFIG = """
[endpoints.local]
base_url = "http://127.0.0.1:9/v1"
provider = "vllm"

[workers.solver]
endpoint = "local"
model = "small"

[workers.other]
endpoint = "local"
model = "large"

[planner]
type = "rule"

[pool]
measured = "measured.json"
"""


def _measured(identity: str, worker: str = "solver") -> MeasuredFile:
    rate = RateEntry(
        identity=identity, answers=5, right=4.0, prior=0.5, rate=0.6875, low=0.4, high=0.9, cost=None
    )
    entry = KindEntry(
        measured_on=date(2026, 11, 22), fingerprint="f", questions=("2 + 2?",), rates={worker: rate}
    )
    return MeasuredFile(kinds={"sums": entry})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a config beside a file of rates."""
    found = tmp_path / "podium.toml"
    found.write_text(CONFIG)
    write_measured(_measured(identity_of(load_config(found).worker("solver"))), tmp_path / "measured.json")
    return found


def test_cards_carry_what_was_measured(path: Path) -> None:
    """Of the workers that were measured; the path is relative to the config."""
    config = load_config(path)
    assert config.measured_path == path.parent / "measured.json"
    conductor = config.conductor()
    assert isinstance(conductor, Conductor)
    solver, other = conductor.pool.cards
    (rate,) = solver.measured
    assert (rate.kind.name, rate.kind.questions, rate.rate) == ("sums", ("2 + 2?",), 0.6875)
    assert (rate.answers, rate.right, rate.measured_on) == (5, 4.0, date(2026, 11, 22))
    assert other.measured == ()


def test_rates_of_another_model_are_refused(path: Path) -> None:
    """The name is the same, the model is not."""
    path.write_text(CONFIG.replace('model = "small"', 'model = "newer"'))
    with pytest.raises(ConfigError, match=r"podium\.toml:18: the worker 'solver' had another model.*'sums'"):
        load_config(path).conductor()
    checked = CliRunner().invoke(app, ["check", "--config", str(path)], env={"COLUMNS": "200"})
    assert "measured.json has rates of solver on sums; the latest on 2026-11-22" in checked.stdout


WRONG_FILES = (
    (None, "does not exist: `podium evals tune` writes it"),
    ("[1]", "is not a file of measured rates: "),
    ('{"version": 1, "kinds": {"sums": {"rates": {}}}}', "kinds.sums.measured_on"),
    (_measured("i").model_dump_json().replace("0.6875", "1.5"), "kinds.sums.rates.solver.rate"),
)


def test_a_wrong_file_is_told(path: Path) -> None:
    """With the line of the key."""
    file = path.parent / "measured.json"
    for content, told in WRONG_FILES:
        file.unlink() if content is None else file.write_text(content)
        with pytest.raises(ConfigError) as caught:
            load_config(path).conductor()
        assert str(caught.value).startswith(f"{path}:18: {file}")
        assert told in str(caught.value)
