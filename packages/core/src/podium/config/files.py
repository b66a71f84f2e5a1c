"""Reads text files up to a maximum size, and words the errors."""

from collections.abc import Mapping
from pathlib import Path

_UNREADABLE: Mapping[type[Exception], str] = {
    FileNotFoundError: "it does not exist: check its name",
    NotADirectoryError: "a part of its path is a file: check its name",
    IsADirectoryError: "it is a folder: name a file in it",
    PermissionError: "permission denied: change its permissions, or name another file",
    UnicodeDecodeError: "it is not UTF-8 text: name a text file",
}


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


def why_unreadable(error: Exception) -> str:
    """Return why a file cannot be read, and the remedy, without the name of the file."""
    for kind, told in _UNREADABLE.items():
        if isinstance(error, kind):
            return told
    return _system_error(error)


def why_unwritable(error: Exception) -> str:
    """Return why a file cannot be written, and the remedy, without the name of the file."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "its folder does not exist: make the folder, or name another file"
        case IsADirectoryError():
            return "it is a folder: name a file in it"
        case PermissionError():
            return "permission denied: name a file in another folder"
        case _:
            return _system_error(error)


def _system_error(error: Exception) -> str:
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
