"""LiteLLM tells Podium whose virtual key a request has, so that the record of the run names the user."""

from typing import Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth


class NamesUser(CustomLogger):
    """Sets `user`, which a client could set itself otherwise."""

    async def async_pre_call_hook(
        self, user_api_key_dict: UserAPIKeyAuth, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Return the request with the user of the key, or else the name of the key."""
        key = user_api_key_dict
        data["user"] = key.user_id or key.key_alias or key.token or ""
        data.pop("safety_identifier", None)
        return data


names_user = NamesUser()
