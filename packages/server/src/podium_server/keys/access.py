"""The interface between the HTTP routes and the keys: who makes a request, and what the request may spend.

A route calls `authenticate` with the key of the request, and runs its turn within `admit`:

    caller = await access.authenticate(token)
    async with access.admit(caller, Ask(model="ultra", conductor=conductor, run_id=run_id)) as admission:
        call = ChatCall(conductor, messages, options={"run_id": run_id, **admission.options})
        ...
        admission.settle(answer.result)
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Literal, Self

from podium.conductor import Conductor
from podium.errors import PodiumError
from podium.run import RunOptions
from podium.types import Result
from podium_server.keys.account import Period
from podium_server.keys.key import Caller, KeyInvalid
from podium_server.keys.sessions import Sessions
from podium_server.keys.store import KeyStore

KNOWN_SECONDS = 5.0
"""How long a replica uses what it has read about a key. A revoked key is refused at its next run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request that asks for admission."""

    model: str
    """The name of the model, as `models` of a key has it."""
    conductor: Conductor
    """The conductor that answers."""
    run_id: str
    tokens: int = 0
    """Estimated tokens of the request. They count against the tokens per minute until the run has ended."""
    may_exist: bool = False
    """Whether an earlier request may have begun the run, as with an `Idempotency-Key`."""
    is_recorded: bool = True
    """Whether the run may be recorded; a key may forbid it, too."""
    first: Literal["planner", "worker"] | None = None
    """What the run calls first; `None` if the run may have begun before."""


class Admission(ABC):
    """An admitted request."""

    options: RunOptions
    """Options that the run must have: its limits, labels, policy and journal."""
    headers: Mapping[str, str]
    """Headers of the response, in lower case: `x-ratelimit-…`."""

    def failure(self, error: PodiumError) -> PodiumError:
        """Return the error for the client of a run that has failed; by default the same error."""
        return error

    @abstractmethod
    def settle(self, result: Result) -> None:
        """Charge the cost of a run that has ended.

        A request that ends without a call of `settle` is charged what the journal has recorded of its run, or
        otherwise its whole reservation.
        """


class Access(ABC):
    """Admits requests. `async with access:` opens its connections."""

    @abstractmethod
    async def authenticate(self, token: str | None) -> Caller:
        """Return the caller with this key.

        Args:
            token: the key as the request has it; `None` if it has none.

        Raises:
            KeyInvalid: there is no key, or it is unknown, expired or revoked.
            JournalError: the database cannot be used.
        """

    @abstractmethod
    async def caller(self, caller_id: str) -> Caller:
        """Return the caller with this `Caller.caller_id`, to continue its work without its key.

        Raises:
            KeyInvalid: the key does not exist, or is expired or revoked.
            JournalError: the database cannot be used.
        """

    @abstractmethod
    def admit(self, caller: Caller, ask: Ask) -> AbstractAsyncContextManager[Admission]:
        """Return a context manager around a run: it reserves the cost of the run at its start.

        Raises:
            KeyRefused: the key does not allow the request; see `podium_server.keys.key`.
            JournalError: the database cannot be used.
        """

    async def check_budget(self, caller: Caller, ask: Ask) -> None:
        """Check that the budget of a caller has enough for a run, when its running requests have ended.

        Raises:
            KeyRefused: the key does not allow the request until its budget is renewed, or for good.
            JournalError: the database cannot be used.
        """
        del caller, ask

    async def prune(self, before: float) -> int:
        """Delete the rows of requests that began before a time and have no run; return their number.

        Raises:
            JournalError: the database cannot be used.
        """
        del before
        return 0

    async def check(self, patience: float) -> None:
        """Check that requests can be admitted.

        Args:
            patience: how long to retry while the database fails, in seconds.

        Raises:
            JournalError: the database cannot be used.
        """
        del patience

    @property
    def sessions(self) -> Sessions | None:
        """The sessions of browsers; `None` for a server without keys, which needs none."""
        return None

    @property
    def store(self) -> KeyStore | None:
        """The keys; `None` for a server without keys."""
        return None

    async def budgets(self, caller: Caller) -> Sequence[Period]:
        """Return the budgets of a caller, with what is spent and reserved of them.

        Raises:
            JournalError: the database cannot be used.
        """
        del caller
        return ()

    async def owner(self, run_id: str) -> str | None:
        """Return `Caller.caller_id` of the caller that began a run; `None` if it is unknown."""
        del run_id
        return None

    async def may_see(self, caller: Caller, run_id: str) -> bool:
        """Return whether a caller may see a run: its own runs, and with the role `see` all runs."""
        return caller.may("see") or await self.owner(run_id) == caller.caller_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class FreeAdmission(Admission):
    """The admission of a request to a server without keys."""

    options: RunOptions = field(default_factory=RunOptions)
    headers: Mapping[str, str] = field(default_factory=dict)

    def settle(self, result: Result) -> None:
        """Do nothing."""


class NoKeys(Access):
    """Admits every request, until there is a key. The server must listen on a loopback address only.

    Args:
        first: where the first key would be created; `None` if there cannot be one.
    """

    def __init__(self, first: KeyStore | None = None) -> None:
        self._first = first
        self._until = 0.0
        """Until when nobody looks for a key, on the monotonic clock."""
        self._is_closed = False

    async def __aenter__(self) -> Self:
        if self._first is not None:  # so that a newer Podium may upgrade its tables while this server runs
            await self._first.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._first is not None:
            await self._first.__aexit__(kind, error, traceback)

    async def authenticate(self, token: str | None) -> Caller:
        """Return the local caller; a key is ignored, because many clients cannot leave it out.

        Raises:
            KeyInvalid: a key was created since the server started.
            JournalError: the database cannot be used.
        """
        del token
        if self._first is not None and not self._is_closed and monotonic() >= self._until:
            self._until = monotonic() + KNOWN_SECONDS
            self._is_closed = bool(await self._first.keys())
        if self._is_closed:
            raise KeyInvalid("the first API key was created, and this server began without keys: restart it")
        return Caller()

    async def caller(self, caller_id: str) -> Caller:
        """Return the local caller; the server has no others."""
        del caller_id
        return Caller()

    async def owner(self, run_id: str) -> str | None:
        """Return the local caller, also for runs of the command line."""
        del run_id
        return Caller().caller_id

    @asynccontextmanager
    async def admit(self, caller: Caller, ask: Ask) -> AsyncGenerator[Admission, None]:
        """Admit the request."""
        del caller, ask
        yield FreeAdmission()
