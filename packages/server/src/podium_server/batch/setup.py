"""What all processes of a batch on a Ray cluster must have in common."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from podium.config import Config, load_config
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium_server import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a batch needs in each of its processes."""

    name: str
    """The name of the batch."""
    config: Path
    """The config, which each machine has at the same place."""
    digest: str
    """The hash of the config."""
    journal: str
    """The URL of the journal, without the password."""
    machine: str | None
    """The only machine that can open the journal; `None` if each can."""
    run_cost: float | None
    """Replaces the cost limit of each run, in USD."""
    version: str = __version__

    def load(self, machine: str) -> tuple[Config, SqlJournal]:
        """Return the config and the journal, in a process of a machine."""
        if self.version != __version__:
            told = (
                f"the machine {machine} has podium-server {__version__}, and the command has {self.version}"
            )
            raise ConfigError(f"{told}: install the same version")
        config = load_config(self.config)
        if _digest(self.config) != self.digest:
            told = f"{self.config} of the machine {machine} differs from the file of the command"
            raise ConfigError(f"{told}: give each machine the same file")
        journal = config.journal()
        if journal is None or _journal_url(journal) != self.journal:
            told = f"the journal of the machine {machine} is {_journal_url(journal)}, not {self.journal}"
            raise ConfigError(f"{told}: set the same variables and paths on each machine")
        if self.machine not in (None, machine):
            told = f"an SQLite journal is a file of {self.machine}, and the cluster also has {machine}"
            raise ConfigError(f"{told}: set `url` in [journal] to a PostgreSQL database")
        return config, journal


def setup_of(config: Path, machine: str, name: str, run_cost: float | None) -> Setup:
    """Return the setup of a command."""
    path = config.absolute()  # the path of an SQLite file depends on it
    url = _journal_url(load_config(path).journal())
    return Setup(
        name=name,
        config=path,
        digest=_digest(path),
        journal=url,
        machine=None if url.startswith("postgres") else machine,
        run_cost=run_cost,
    )


def _journal_url(journal: SqlJournal | None) -> str:
    return "none" if journal is None else str(journal.url)


def _digest(config: Path) -> str:
    return sha256(config.read_bytes()).hexdigest()
