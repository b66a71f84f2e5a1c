"""The errors of requests that a key does not allow, each with its HTTP status."""

from collections.abc import Mapping
from math import ceil

from podium_server.errors import NO_RETRY, ServerError


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
