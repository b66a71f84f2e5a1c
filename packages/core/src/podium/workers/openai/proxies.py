"""Finds the proxy for a server in the environment."""

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from podium.errors import ConfigError
from podium.secrets import register


def find_proxy(base_url: str) -> str | None:
    """Return the URL of the proxy for `base_url`; `None` for a direct connection.

    The proxy is read from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower case,
    and from the system's settings if there are any. A server on this machine never has a proxy.

    Raises:
        ConfigError: the environment has a proxy that is not an HTTP proxy.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if _is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"
    scheme, _, rest = proxy.partition("://")
    for secret in _secrets(rest):
        register(secret)
    if scheme not in ("http", "https"):
        raise ConfigError(
            f"the proxy for {base_url} in the environment uses {scheme!r}, which is not supported: "
            "use an HTTP proxy, or put the host into NO_PROXY"
        )
    return proxy


def _secrets(rest: str) -> Iterator[str]:
    """Yield the password of a URL without its scheme, both verbatim and decoded."""
    user, found, _ = rest.partition("/")[0].rpartition("@")
    password = user.partition(":")[2] or user
    if found:
        yield from {password, unquote(password)}


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
