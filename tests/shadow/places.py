"""Places for pairs."""

from pathlib import Path
from tempfile import mkdtemp

from podium_shadow import SqlPairs


class NewPairs(SqlPairs):
    """A place of its own, which is empty."""

    def __init__(self) -> None:
        super().__init__(Path(mkdtemp(prefix="pairs-")) / "pairs.db")
