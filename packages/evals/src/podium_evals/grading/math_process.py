"""The process of `MathChecker`: for each input line with two expressions, writes whether they are equal."""

import json
import logging
import sys

MOST_MEMORY = 2**31
"""Bytes of address space: powers of large numbers could fill all memory."""


def main() -> None:
    """Answer the lines of stdin until it ends."""
    _bound_memory()
    try:
        from math_verify import parse, verify  # type: ignore[import-untyped] # noqa: PLC0415 - an extra
    except ImportError:
        _tell("missing")
        return
    logging.disable()
    _tell("ready")
    for line in sys.stdin:
        right, given = json.loads(line)
        try:
            is_equal = bool(verify(parse(f"${right}$"), parse(f"${given}$")))
        except (Exception, MemoryError):  # noqa: BLE001 - any failure of the library means: not shown equal
            is_equal = False
        _tell(json.dumps(is_equal))


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _bound_memory() -> None:
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


if __name__ == "__main__":
    main()
