"""Task groups raise groups of exceptions; callers of this package see the exception that ended the group."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def first_failure() -> Iterator[None]:
    """Raise, in place of a group of exceptions, the first of them: the others were cancelled for it."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure: BaseException = group
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        raise failure from failure.__cause__
