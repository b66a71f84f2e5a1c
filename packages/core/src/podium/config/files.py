"""Reads text files of a bounded length. Whose error it is when that fails, the caller says."""

from pathlib import Path


def read_text(path: Path, most: int) -> str:
    """Return the text of a file in UTF-8.

    Args:
        path: the file.
        most: the longest it may be, in bytes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is longer, or no UTF-8 (then a `UnicodeDecodeError`), or `path` is none.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is longer than {most:,} bytes")
    return data.decode()
