"""`podium.toml`: what it may say, and what is told when it says something else."""

from pathlib import Path

import pytest

from podium.config import find_config, load_config
from podium.config.load import find_journal
from podium.config.source import lines_of
from podium.errors import ConfigError
from podium.types import RunEnded, RunStarted
from podium.workers import ChatWorker, Price

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a file for a config."""
    return tmp_path / "podium.toml"


def test_worker_has_what_its_table_says(path: Path) -> None:
    """Card, model and sampling are those of the table."""
    path.write_text(
        GOOD.replace(
            'model = "qwen"',
            'model = "qwen"\ndescription = "Solves."\nprice = { input = 1, output = 2.5 }\n'
            'context_window = 32768\nlabels = ["eu"]\nconcurrency = 3\nparts = ["image_url"]\n'
            "sampling = { temperature = 0.2, max_tokens = 100 }\n",
        )
    )
    worker = load_config(path).worker("solver")
    assert isinstance(worker, ChatWorker)
    assert (worker.model, worker.card.name, worker.card.description) == ("qwen", "solver", "Solves.")
    assert worker.card.price == Price(input=1, output=2.5)
    assert (worker.card.context_window, worker.card.concurrency) == (32768, 3)
    assert (worker.card.labels, worker.card.parts) == (frozenset({"eu"}), frozenset({"image_url"}))
    assert (worker.sampling.temperature, worker.sampling.max_tokens) == (0.2, 100)
    path.write_text(GOOD)
    assert load_config(path).worker("solver").card.price is None


def test_paths_start_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder or plan file is looked for beside the config, wherever one runs it."""
    (tmp_path / "there" / "pages").mkdir(parents=True)
    (tmp_path / "there" / "plan.json").write_text('{"steps": []}')
    path = tmp_path / "there" / "podium.toml"
    path.write_text(
        '[workers.pages]\ntype = "documents"\nfolder = "pages"\n'
        '[planner]\ntype = "fixed"\nplan = "plan.json"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert load_config(Path("there") / "podium.toml").conductor().pool.names == ("pages",)


def test_unreadable_files_are_told(path: Path) -> None:
    """No file, a folder, other bytes than UTF-8 and a huge file are config errors."""
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
    """First what is named, then the variable, then here, then the user's folder."""
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
    assert find_config() == Path("elsewhere.toml")
    assert find_config("named.toml") == Path("named.toml")


TOML = '''\
a = 1 # [x]
"b c" = "x # ] \\" [y]"
'd"' . e = 'it # s'

[t."q.r".s]
l = [ # comment ]
  "one", 'two', """three
 ]"" """, { k = 1, m.n = [1,
 2] },
]
m = """
[fake]
x = 1\\"""
"""
"\\u00e9\\t" = -1.5e3
[[arr]]
[[arr]]
[arr.sub]
y = 2
'''


def test_lines_of_all_there_is_in_toml() -> None:
    """Every key that begins a line has it, whatever TOML it stands in; nothing else passes for a key."""
    lines = {("a",): 1, ("b c",): 2, ('d"',): 3, ('d"', "e"): 3}
    lines |= {("t",): 5, ("t", "q.r"): 5, ("t", "q.r", "s"): 5, ("t", "q.r", "s", "l"): 6}
    lines |= {("t", "q.r", "s", "m"): 11, ("t", "q.r", "s", "é\t"): 15}
    lines |= {("arr",): 16, ("arr", 0): 16, ("arr", 1): 17, ("arr", 1, "sub"): 18, ("arr", 1, "sub", "y"): 19}
    assert lines_of(TOML) == lines_of(TOML.replace("\n", "\r\n")) == lines


def test_all_of_a_hosted_table_reaches_the_conductor(path: Path) -> None:
    """Model and reasoning effort are those of the table, and what cannot be one is told."""
    head = GOOD.partition("[workers")[0] + '[hosted]\nendpoint = "local"\n'
    path.write_text(head + 'model = "other"\napi = "chat"\neffort = "max"\nmax_tokens = 5\nseconds = 9\n')
    conductor = load_config(path).conductor()
    (worker,) = conductor.pool
    assert isinstance(worker, ChatWorker)
    assert (worker.model, worker.api, worker.sampling.effort, worker.max_tokens) == (
        "other",
        "chat",
        "max",
        5,
    )
    assert (conductor.limits.seconds, conductor.limits.attempt_seconds) == (9.0, 9.0)
    path.write_text(head + 'effort = "low"\n')
    with pytest.raises(
        ConfigError, match=r":7: 'effort' in \[hosted\] is 'low': write one of 'high', 'xhigh' or"
    ):
        load_config(path)


def test_records_are_read_from_their_tables(path: Path) -> None:
    """Retry, policy, limits and what becomes of failures reach the conductor."""
    path.write_text(
        GOOD.replace('model = "qwen"', 'model = "qwen"\nlabels = ["eu"]')
        + "[limits]\ncost = 0.5\nunpriced = 0\n"
        + "[conductor]\non_failure = 'note'\n"
        + "[retry]\nattempts = 2\nretry_on = ['worker_timeout']\n"
        + "[policy]\nsteps = 2\nrequired = ['eu']\napart = [['a', 'b']]\nlabels = ['a', 'b', 'x']\n"
        + "[[policy.rules]]\nlabel = 'x'\nnever = ['solver']\n"
        + "[[policy.pins]]\nwords = 'compute total'\nworker = 'solver'\n"
    )
    conductor = load_config(path).conductor()
    assert (conductor.limits.cost, conductor.limits.unpriced) == (0.5, 0)


def test_where_runs_are_recorded(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default in the user's state folder; elsewhere or nowhere if the file says so."""
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


TEAM = """\
[workers.adder]
type = "calculator"

[planner]
type = "rule"
"""


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
    started = [event.workers for event in events if isinstance(event, RunStarted)]
    assert started == [("sums",), ("adder",)]
    assert [event.result.answer for event in events if isinstance(event, RunEnded)] == ["2 * 21 = 42"] * 2
    (tmp_path / "teams" / "sums.toml").write_text(TEAM.replace("adder", "ad der"))
    with pytest.raises(ConfigError, match=r"podium.toml:3: .*sums.toml:1: "):
        load_config(path)
    (tmp_path / "teams" / "sums.toml").write_text(
        f'{TEAM}[workers.back]\ntype = "conductor"\nconfig = "../podium.toml"\ndescription = "."\n'
    )
    with pytest.raises(ConfigError, match=r"podium.toml:3: .*sums.toml:8: .*in its own pool"):
        load_config(path)
