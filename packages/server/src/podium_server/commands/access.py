"""Who may use a server: finds its API keys, and checks its address."""

from collections.abc import Sequence
from time import time

import anyio

from podium.config import Config
from podium.errors import ConfigError
from podium_server.http import is_loopback
from podium_server.keys import Key, KeyAccess, KeyStore


def find_keys(config: Config) -> KeyAccess | None:
    """Return the keys in the database of the config's journal; `None` if there are none.

    A revoked or expired key counts too: the server never opens because its last key has ended.
    """
    journal = config.journal()
    if journal is None:
        return None
    store = KeyStore.beside(journal)
    if not anyio.run(store.keys):
        return None
    return KeyAccess(store, journal=journal)


def valid_keys(config: Config) -> Sequence[Key]:
    """Return the keys that are neither revoked nor expired; empty without a journal."""
    journal = config.journal()
    keys = () if journal is None else anyio.run(KeyStore.beside(journal).keys)
    now = time()
    return [key for key in keys if key.revoked is None and (key.expires is None or key.expires > now)]


def check_host(host: str, access: KeyAccess | None) -> None:
    """Raise `ConfigError` if other machines could use a server without keys."""
    if access is None and not is_loopback(host):
        told = f"{host} can be reached from other machines, and the server has no API keys"
        raise ConfigError(f"{told}: create one with `podium keys create NAME`, or listen on 127.0.0.1")
