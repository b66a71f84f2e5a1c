"""Puts the base URLs of the environment into a preset, such as `OPENAI_BASE_URL`."""

import json
import tomllib
from collections.abc import Mapping
from urllib.parse import urlsplit

from podium.errors import ConfigError
from podium.workers.openai.endpoint import Endpoint


def use_base_urls(preset: str, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a preset with the base URLs from the environment, and these URLs by endpoint.

    An endpoint whose key is in `NAME_API_KEY` takes its URL from `NAME_BASE_URL`. A URL without a path
    gets the path of the preset's URL.

    Args:
        preset: the text of a config.
        environ: the environment variables.

    Raises:
        ConfigError: a variable has an invalid URL.
    """
    urls = {}
    for name, table in tomllib.loads(preset).get("endpoints", {}).items():
        default, provider = table["base_url"], table.get("key_env", "").removesuffix("_API_KEY")
        given = environ.get(f"{provider}_BASE_URL", "").strip()
        if provider and given:
            urls[name] = _checked(f"{provider}_BASE_URL", given, urlsplit(default).path)
            preset = preset.replace(_line(default), _line(urls[name]))
    return preset, urls


def _checked(variable: str, given: str, path: str) -> str:
    try:
        url = Endpoint(given).base_url
    except ConfigError as error:
        raise ConfigError(f"{variable} is invalid: {error}") from error
    return url if urlsplit(url).path else url + path


def _line(url: str) -> str:
    return f"base_url = {json.dumps(url, ensure_ascii=False)}\n"
