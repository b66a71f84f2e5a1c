"""Settings and fixtures of all tests."""

import signal
from collections.abc import Iterator

import pytest
import trustme
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "short", max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# `make test` always uses the same examples; `make nightly` uses new ones.
settings.register_profile("long", settings.get_profile("short"), max_examples=150)
settings.register_profile("nightly", settings.get_profile("short"), max_examples=300, derandomize=False)
# `make mutation` needs only any failing example, not the smallest.
settings.register_profile(
    "mutation", settings.get_profile("short"), max_examples=10, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("short")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores the signal for background processes, and commands under test would inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have HTTP clients trust one certificate, because each client takes 40 ms to read all authorities."""
    with pytest.MonkeyPatch.context() as patch:
        file = tmp_path_factory.mktemp("tls") / "ca.pem"
        file.write_bytes(trustme.CA().cert_pem.bytes())
        patch.setenv("SSL_CERT_FILE", str(file))
        yield
