"""Foreign exceptions become errors of Podium, each in one way."""

import asyncio

import pytest
from contracts.provider_errors import PROVIDER_ERRORS

from podium.errors import ConfigError, WorkerFailed, WorkerRefused, WorkerTimeout
from podium.hosts import worker_errors
from podium.hosts.errors import worker_error
from podium.usage import Usage


def test_a_provider_exception_is_told_in_one_way() -> None:
    """Its class, whether it may be paid for, the wait the server asked for, and what it said."""
    for case in PROVIDER_ERRORS:
        error = worker_error(case.make(), "writer")
        told = (type(error), error.maybe_paid, error.retry_after, error.status)
        assert told == (case.kind, case.maybe_paid, case.retry_after, case.status), case.name
        assert case.says in str(error)
        assert "worker 'writer'" in str(error)


def test_the_original_is_the_cause_and_podium_s_own_errors_pass() -> None:
    """Nothing is wrapped twice."""
    with pytest.raises(WorkerTimeout) as raised, worker_errors("writer"):
        raise TimeoutError("late")
    assert isinstance(raised.value.__cause__, TimeoutError)
    with pytest.raises(ConfigError, match="mine"), worker_errors("writer"):
        raise ConfigError("mine")


def test_what_was_spent_is_on_the_error() -> None:
    """Where the error does not say it itself, and somebody knows."""
    spent, own = Usage(3, 4), Usage(1, 1)
    with pytest.raises(WorkerFailed) as raised, worker_errors("writer", usage=lambda: spent):
        raise ValueError("late")
    assert raised.value.usage == spent
    with pytest.raises(WorkerFailed) as raised, worker_errors("writer", usage=lambda: spent):
        raise WorkerFailed("own", usage=own)
    assert raised.value.usage == own
    with pytest.raises(WorkerFailed) as raised, worker_errors("writer", usage=lambda: None):
        raise ValueError("late")
    assert raised.value.usage is None


class HookAborted(Exception):
    """What a host raises to stop a call."""


def hook(error: BaseException) -> WorkerRefused | None:
    """Recognise it."""
    return WorkerRefused("stopped by a hook") if isinstance(error, HookAborted) else None


def test_a_host_s_own_exceptions_are_read_first_wherever_they_stand() -> None:
    """Also as the cause of another."""
    error = TimeoutError("late")
    error.__cause__ = HookAborted()
    assert isinstance(worker_error(error, "writer", reader=hook), WorkerRefused)
    assert isinstance(worker_error(TimeoutError("late"), "writer", reader=hook), WorkerTimeout)


@pytest.mark.anyio
async def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    """A cancelled future inside would otherwise stop the whole run; a cancel of the task passes."""
    with pytest.raises(WorkerFailed), worker_errors("writer"):
        raise asyncio.CancelledError

    async def call() -> None:
        with worker_errors("writer"):
            await asyncio.sleep(60)

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
