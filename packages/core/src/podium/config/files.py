"""Reads text files up to a maximum size. The caller translates the errors."""

from pathlib import Path


def read_text(path: Path, most: int) -> str:
    """Return the text of a file in UTF-8.

    Args:
        path: the file.
        most: the maximum size in bytes.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is too large, is not UTF-8 (a `UnicodeDecodeError`), or `path` is invalid.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is longer than {most:,} bytes")
    return data.decode()
