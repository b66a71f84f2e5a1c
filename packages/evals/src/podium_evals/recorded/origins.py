"""The public origins of recordings: lists of their files, with sizes and checksums.

Each list is about one commit. The lists were made from copies of the repositories, and some archives of
MMLU-Pro and one file of Reasoning Gym were missing in these copies. The missing files are not listed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath
from urllib.parse import quote, urlsplit

from podium_evals.recorded import mmlu_pro, reasoning_gym
from podium_evals.recorded.recordings import Provenance

RAW = "https://raw.githubusercontent.com"
"""The URL under which GitHub serves the files of a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFile:
    """A file of an origin."""

    path: str
    """The path below the origin's URL, with `/` between folders."""
    size: int
    """In bytes."""
    sha256: str
    """The checksum in hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The files of a public recording, and their URL."""

    name: str
    """The name of the folder for the origin's files."""
    provenance: Provenance
    url: str
    """The URL before the path of a file, including the last `/`."""
    files: tuple[OriginFile, ...]

    def url_of(self, file: OriginFile) -> str:
        """Return the URL of a file."""
        return self.url + quote(file.path)

    def only(self, chosen: Callable[[PurePosixPath], bool]) -> "Origin":
        """Return the origin with only those files for whose path `chosen` returns true."""
        kept = tuple(file for file in self.files if chosen(PurePosixPath(file.path)))
        return Origin(name=self.name, provenance=self.provenance, url=self.url, files=kept)


def read_manifest(text: str) -> tuple[OriginFile, ...]:
    """Read a list of files: a line for each, with path, size and checksum, separated by tabs."""
    rows = (line.split("\t") for line in text.splitlines() if line)
    return tuple(OriginFile(path=path, size=int(size), sha256=digest) for path, size, digest in rows)


def reasoning_gym_origin() -> Origin:
    """Return the zero-shot answers in `open-thought/reasoning-gym-eval`: 1,628 files, 500 MB.

    Paths are `<level>/<model>_<date>_<time>/<category>/<kind>.json`. Files of kinds that are held back for a
    last test are not listed.
    """
    return _origin("reasoning_gym", reasoning_gym.PROVENANCE, "reasoninggym-paper-experiments/zero-shot/")


def mmlu_pro_origin() -> Origin:
    """Return the answers in `TIGER-AI-Lab/MMLU-Pro`: 29 archives, 104 MB.

    Paths are `model_outputs_<model>_5shots.zip`; each has one file of JSON.
    """
    return _origin("mmlu_pro", mmlu_pro.PROVENANCE, "eval_results/")


def _origin(name: str, provenance: Provenance, folder: str) -> Origin:
    text = files("podium_evals.recorded").joinpath("manifests", f"{name}.tsv").read_text(encoding="utf-8")
    repository = urlsplit(provenance.source).path
    url = f"{RAW}{repository}/{provenance.revision}/{folder}"
    return Origin(name=name, provenance=provenance, url=url, files=read_manifest(text))
