"""The text of a key."""

from hashlib import sha256

from hypothesis import given, strategies as st

from podium.secrets import scrub
from podium_server.keys.key import PREFIX, is_token, new_token, token_hash


def test_keys_are_long_random_and_well_formed() -> None:
    """Each key is new, and has its prefix and its checksum."""
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith(PREFIX) and len(token) == 59 and is_token(token) for token in tokens)


@given(at=st.integers(0, 58), digit=st.sampled_from("0aZ-é"))
def test_a_mistyped_key_is_recognized(at: int, digit: str) -> None:
    """A key with one wrong character, a cut key and a key with more text are malformed."""
    token = new_token()
    mistyped = token[:at] + digit + token[at + 1 :]
    assert mistyped == token or not is_token(mistyped)
    assert not is_token(token[:at])
    assert not is_token(token + digit)


def test_the_hash_is_plain_sha_256() -> None:
    """A look-up needs no slow hash."""
    assert token_hash("podium_sk_x") == sha256(b"podium_sk_x").hexdigest()


def test_keys_are_removed_from_texts() -> None:
    """Records and logs show no key."""
    for _ in range(100):
        token = new_token()
        assert token not in scrub(f"the key {token} was refused")
