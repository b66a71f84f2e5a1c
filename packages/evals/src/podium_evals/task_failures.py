"""Replaces the exception group of a task group by the exception that ended it."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def first_failure() -> Iterator[None]:
    """Raise the first exception of an exception group; the other tasks were cancelled because of it."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure: BaseException = group
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        raise failure from failure.__cause__
