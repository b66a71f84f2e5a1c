"""What a key is: its rules, its text, its caller, and the errors of requests that it does not allow."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from math import ceil
from typing import ClassVar, Literal, get_args
from zlib import crc32

from podium.config import Config
from podium.errors import ConfigError
from podium.policy import Policy
from podium.types.plan import check_name
from podium_server.errors import NO_RETRY, ServerError

Role = Literal["use", "see", "approve", "admin"]
"""What the holder of a key may do with runs. Each role includes the roles before it.

`use`: call models, and see, approve and cancel the key's own runs. `see`: see all runs. `approve`: also
approve and refuse the plans of all runs. `admin`: also cancel, resume and delete all runs, and
manage the keys.
"""
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """What a key may do and spend. `None` means no limit."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    role: Role = "use"
    models: tuple[str, ...] | None = None
    """Names of the models that the key may call."""
    day_cost: float | None = None
    """Budget of a day in UTC, in USD."""
    month_cost: float | None = None
    """Budget of a calendar month in UTC, in USD."""
    run_cost: float | None = None
    """Maximum cost of one run, in USD."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Tokens that all calls of the key's runs read and write."""
    concurrency: int | None = None
    """Maximum number of requests at the same time."""
    labels: tuple[str, ...] = ()
    """Labels of each query, to which the rules of policies refer."""
    allowed: tuple[str, ...] | None = None
    """See `Policy`, here and for the next three fields. The policy of the model applies too."""
    denied: tuple[str, ...] = ()
    regions: tuple[str, ...] | None = None
    steps: int | None = None
    retention_days: int | None = None
    """Days after which prompts and answers are deleted; 0 never stores them, and `None` keeps them."""

    def __post_init__(self) -> None:
        for name in _COSTS:
            cost: object = getattr(self, name)
            if cost is not None and not _is_cost(cost):
                told = f"it must be a number of USD above 0 and below {_MOST:,}"
                raise ConfigError(f"{name} of a key is {cost!r}: {told}")
        for name, least in _COUNTS.items():
            count: object = getattr(self, name)
            if count is not None and not (type(count) is int and least <= count < _MOST):
                told = f"it must be a whole number of at least {least}, and below {_MOST:,}"
                raise ConfigError(f"{name} of a key is {count!r}: {told}")
        for name in ("models", "labels", "allowed", "denied", "regions"):
            for text in getattr(self, name) or ():
                check_name(text, f"an entry of {name} of a key")
        if self.role not in ROLES:
            raise ConfigError(f"role {self.role!r} of a key is invalid: write one of {', '.join(ROLES)}")

    @property
    def has_budget(self) -> bool:
        """Whether the cost of the key's runs is limited."""
        return not (self.day_cost is None and self.month_cost is None and self.run_cost is None)

    @property
    def policy(self) -> Policy | None:
        """The policy of the key's runs; `None` if it has none."""
        return _policy_of(self)


_COSTS = ("day_cost", "month_cost", "run_cost")
_LEAST_COST = 1e-9
_COUNTS = {
    "requests_per_minute": 1,
    "tokens_per_minute": 1,
    "concurrency": 1,
    "steps": 1,
    "retention_days": 0,
}
_MOST = 1_000_000_000


@lru_cache(maxsize=1000)
def _policy_of(rules: KeyRules) -> Policy | None:
    policy = Policy(allowed=rules.allowed, denied=rules.denied, regions=rules.regions, steps=rules.steps)
    return None if policy.silent else policy


def check_policy(config: Config, rules: KeyRules) -> None:
    """Check the policy and the labels of a key with all workers of a config.

    A model may have a part of these workers, so the key may name workers that one model lacks.

    Raises:
        ConfigError: no worker has a name or label of the key, or the conductor is hosted.
        WorkerError: an MCP server did not list its tools.
    """
    own, parties = config.policy(), config.parties()
    policy = own if rules.policy is None else rules.policy & own
    try:
        policy.fit(parties)
        policy.check_labels(rules.labels, parties)
    except ConfigError as error:
        raise ConfigError(f"the key does not fit {config.path}: {error}") from error


def _is_cost(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and _LEAST_COST <= value < _MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key without its secret text."""

    key_id: str
    name: str
    rules: KeyRules = field(default_factory=KeyRules)
    created: float
    """Seconds of Unix time, as are the next three fields."""
    expires: float | None = None
    """End of the key; `None` if it has none."""
    revoked: float | None = None
    """When the key was revoked; `None` if it is valid."""
    last_used: float | None = None
    """The last admitted request; `None` if there was none."""


class KeyRefused(ServerError):
    """The key is missing or invalid, or does not allow the request; nothing was started."""

    code = "key_refused"
    status = 403

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the request may be admitted; `None` if waiting does not help."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Say when to repeat the request; OpenAI's clients repeat one after the status 429."""
        return {} if self.retry_after is None else {"retry-after": str(max(ceil(self.retry_after), 1))}


class KeyInvalid(KeyRefused):
    """There is no key, or it is unknown, expired or revoked."""

    code = "invalid_api_key"
    status = 401

    @property
    def headers(self) -> Mapping[str, str]:
        """Ask for a key."""
        return {**super().headers, "www-authenticate": "Bearer"}


class CsrfMissing(KeyRefused):
    """A request of a session has no CSRF token, or a wrong one."""

    code = "csrf_missing"


class RoleMissing(KeyRefused):
    """The key lacks the role that the request needs."""

    code = "role_missing"


class ModelNotAllowed(KeyRefused):
    """The key may not call the model. The status is the same as for an unknown model."""

    code = "model_not_found"
    status = 404


class PolicyUnfit(KeyRefused):
    """The policy of the key does not fit the workers of the model."""

    code = "key_policy"


class Unpriced(KeyRefused):
    """The key has a budget, and the cost of a run of the model cannot be limited."""

    code = "unpriced_model"


class RateLimited(KeyRefused):
    """The key has made too many requests, or has used too many tokens, in the last minute."""

    code = "rate_limit_exceeded"
    status = 429


class TooManyAtOnce(RateLimited):
    """The key has too many running requests."""

    code = "concurrency_limit"


class BudgetReserved(RateLimited):
    """The rest of the budget is reserved for running requests."""

    code = "budget_reserved"


class BudgetSpent(KeyRefused):
    """The budget of the key is spent, or its rest is less than a run may cost.

    In the second case the run may have begun, and then has the id `run_id`.
    """

    code = "insufficient_quota"
    status = 429

    @property
    def headers(self) -> Mapping[str, str]:
        """Keep clients from repeating the request."""
        return {**super().headers, **NO_RETRY}


LOCAL = "local"
"""The name of the caller of a server without keys."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request."""

    key: Key | None = None
    """`None` for a server without keys."""

    @property
    def caller_id(self) -> str:
        """The id of the key, within which the ids of `Idempotency-Key` are unique."""
        return LOCAL if self.key is None else self.key.key_id

    @property
    def keeps_texts(self) -> bool:
        """Whether prompts and answers are stored. If not, a run cannot be resumed, fetched or repeated."""
        return self.key is None or self.key.rules.retention_days != 0

    def may(self, role: Role) -> bool:
        """Return whether the caller has a role, or a role that includes it."""
        return self.key is None or ROLES.index(self.key.rules.role) >= ROLES.index(role)

    def check_role(self, role: Role) -> None:
        """Raise `RoleMissing` if the caller lacks a role."""
        if not self.may(role):
            raise RoleMissing(
                f"the API key needs the role {role!r}: create one with `podium keys create --role`"
            )

    def may_call(self, model: str) -> bool:
        """Return whether the caller may call a model; models that it may not call are not listed to it."""
        return self.key is None or self.key.rules.models is None or model in self.key.rules.models

    def check_model(self, model: str) -> None:
        """Raise `ModelNotAllowed` if the caller may not call a model."""
        if not self.may_call(model):
            raise ModelNotAllowed(f"the model {model!r} does not exist, or your API key may not call it")


PREFIX = "podium_sk_"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM, _CHECKSUM = 43, 6
"""Numbers of digits in base 62: of 256 bits, and of the CRC-32 of the text before."""
_FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM + _CHECKSUM}}}")


def new_token() -> str:
    """Return a new random key."""
    while True:
        begun = PREFIX + _base62(secrets.randbits(256), _RANDOM)
        if any(digit.isdigit() for digit in begun):  # so that `podium.secrets` recognizes it
            return begun + _checksum(begun)


def is_token(text: str) -> bool:
    """Return whether a text has the form and the checksum of a key."""
    return _FORM.fullmatch(text) is not None and text[-_CHECKSUM:] == _checksum(text[:-_CHECKSUM])


def token_hash(token: str) -> str:
    """Return the SHA-256 of a key, as the database stores it."""
    return sha256(token.encode()).hexdigest()


def _checksum(text: str) -> str:
    return _base62(crc32(text.encode()), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits.rjust(width, "0")
