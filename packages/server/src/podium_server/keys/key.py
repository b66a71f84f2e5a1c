"""What a key may do."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Literal, get_args

from podium.config import Config
from podium.errors import ConfigError
from podium.policy import Policy
from podium.types.plan import check_name

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
