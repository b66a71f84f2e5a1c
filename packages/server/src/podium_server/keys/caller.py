"""Who makes a request, and what the caller may do."""

from dataclasses import dataclass

from podium_server.keys.key import ROLES, Key, Role
from podium_server.keys.refusals import ModelNotAllowed, RoleMissing

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
