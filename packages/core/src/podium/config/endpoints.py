"""The endpoints of a config."""

from collections.abc import Mapping

from podium.config.sections import EndpointSection
from podium.config.source import Source
from podium.config.variables import read_variable
from podium.workers.openai.endpoint import Endpoint


class Endpoints:
    """Builds each endpoint once, so that its workers share its connections.

    Args:
        sections: the tables `[endpoints.NAME]`, by name.
        source: the text of the config.
        key_remedy: what to do if the environment has no key, for the message of the error.
    """

    def __init__(self, sections: Mapping[str, EndpointSection], source: Source, key_remedy: str) -> None:
        self._sections = sections
        self._source = source
        self._key_remedy = key_remedy
        self._built: dict[str, Endpoint] = {}

    def get(self, name: str) -> Endpoint:
        """Return the endpoint of `[endpoints.NAME]`, the same object each time.

        Raises:
            ConfigError: the environment variable of the key is not set, or the URL is invalid.
        """
        if name not in self._built:
            section = self._sections[name]
            key = None if section.key_env is None else self._key(name, section.key_env)
            with self._source.at("endpoints", name):
                self._built[name] = Endpoint(
                    section.base_url, api_key=key, provider=section.provider, timeouts=section.timeouts
                )
        return self._built[name]

    def _key(self, name: str, variable: str) -> str:
        use = f"[endpoints.{name}] reads its key from it"
        return read_variable(self._source, ("endpoints", name, "key_env"), variable, use, self._key_remedy)
