"""What is taken out of text, what is left in, and what stays JSON."""

import base64
import html
import json
from collections.abc import Iterator
from itertools import product
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, strategies as st

from podium import secrets as redact
from podium.secrets import MARK, register, scrub

KEY = "zq-Canary/7+x&y=\u003c1\u003e"
DULL = "correct-horse-battery"
EVIL = ("sk-", "-eyJ", "eyJaaaaaaaa.", "://a:", "Bearer a", "?key=", "-----BEGIN ", "\\n", "_", "a", "\\nsk-")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redact, "_forms", {})
    register(KEY)
    register(DULL)
    return iter(())


def test_a_registered_value_is_taken_out_in_every_form() -> None:
    forms = [KEY, json.dumps(KEY)[1:-1], quote(KEY), quote(KEY, safe=""), quote_plus(KEY), html.escape(KEY)]
    forms += [base64.b64encode(b"u" * n + b":" + KEY.encode()).decode() for n in range(3)]
    forms += [base64.urlsafe_b64encode(b"u" * n + KEY.encode() + b"tail").decode() for n in range(3)]
    for form in forms:
        clean = scrub(f"before {form} after")
        assert MARK in clean
        assert clean.startswith("before ")
        assert clean.endswith(" after")
        assert not any(form[at : at + 12] in clean for at in range(len(form) - 12))


def test_a_short_value_is_no_secret() -> None:
    """A key of a few letters would blot out plain words."""
    register("none")
    assert scrub("none of them") == "none of them"


def test_no_rest_of_a_longer_secret_is_shown() -> None:
    """A registered value may be the beginning, the middle or the end of another secret."""
    register("sk-part0of1another")
    register("part0of1another-longer-one")
    assert (scrub("sk-part0of1another"), scrub("sk-part0of1another7")) == (MARK, MARK)
    assert scrub("it is sk-part0of1another-longer-one2.") == f"it is {MARK}."
    assert scrub("sk-part0of1another sk-part0of1another") == f"{MARK} {MARK}"


LOOKS = {
    "Authorization: Bearer ab12cd34ef56ab12cd34": f"Authorization: Bearer {MARK}",
    "authorization: bearer ab12cd34ef56ab12cd34=": f"authorization: bearer {MARK}",
    f"Basic {base64.b64encode(b'user:hunter2').decode()}": f"Basic {MARK}",
    "sk-proj-4Zb_8QxGx0Wm2sPz-1LqT": f"sk-{MARK}",
    "it says sk-ant-api03-Zb8QxGx0Wm2sPz1LqT.": f"it says sk-{MARK}.",
    "AKIAIOSFODNN7EXAMPLE": f"AKIA{MARK}",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a": f"ghp_{MARK}",
    "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPq": f"github_pat_{MARK}",
    "xoxb-2345678901-abcdefghij": f"xoxb-{MARK}",
    "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY": f"AIza{MARK}",
    "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345": f"hf_{MARK}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w": MARK,
    "https://ann:hunter2@host/path": f"https://ann:{MARK}@host/path",
    "redis://:hunter2@host": f"redis://:{MARK}@host",
    "https://hunter2@host/path": f"https://{MARK}@host/path",
    "GET /v1?a=b&subscription-key=abcd1234efgh": f"GET /v1?a=b&subscription-key={MARK}",
    "https://host/?sv=1&sig=abcd1234%2Fefgh": f"https://host/?sv=1&sig={MARK}",
    "GET /v1?x=1&api_key=abcd1234efgh&y=2": f"GET /v1?x=1&api_key={MARK}&y=2",
    "https://host/?KEY=abcd1234efgh": f"https://host/?KEY={MARK}",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/x==\nabc\n-----END RSA PRIVATE KEY-----\nend": f"{MARK}\nend",
    "-----BEGIN PRIVATE KEY-----\nMIIEow+/x and no end": MARK,
}


def test_what_looks_like_a_secret_is_taken_out() -> None:
    """Nobody need have told of it; it may stand in a text, or in JSON, after any character."""
    for (text, clean), before in product(LOOKS.items(), ("", "\n", '"', "“", "x ", "\\", "(")):
        wrapped = scrub(json.dumps({"text": before + text}))
        assert (json.loads(wrapped), scrub(before + text)) == ({"text": before + clean}, before + clean)


PROSE = (
    "Basic understanding of JavaScript and basic authentication are enough.",
    "The bearer of bad news; Bearer instruments; a bearer token is needed",
    "sk-learn-compatible-estimators and task-2024-assessment-report-final-1",
    "risk-2024-assessment-report-final, disk-0123456789abcdef0123456789",
    "The AKIAs are dogs. ASIA is large. PARTIAL DIAGRAM",
    "see https://example.org:8080/a/b?page=2&sort=name and user@example.org",
    "https://medium.com/@user, postgresql://postgres@host/name, ssh://git@host/name",
    "std::sort(xs.begin(), key=lambda x: x); sorted(words, key=len_of_the_word)",
    'client = Client(api_key=os.environ["KEY"], token=token_of_session)',
    "const gh_actions = hf_hub_download(repo_id, file_name_of_the_model)",
    "commit 3f786850e387550fdab836ed7e6dc881de23b001, 550e8400-e29b-41d4-a716-446655440000",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "eyJ is how a JWT begins; a.b.c; v1.2.3",
    "xoxo-love-and-kisses-2024-forever",
    "ghost_writer ghp_ gho_ sk- AIza",
)


def test_prose_and_code_stay_as_they_are() -> None:
    for text in PROSE:
        assert scrub(text) == text


parts = [*LOOKS, KEY, DULL, json.dumps(KEY), *'\\"\n-_=x1', "sk-", MARK]
texts = st.text() | st.lists(st.sampled_from(parts)).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(texts)
def test_is_idempotent(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


@given(values, st.booleans())
def test_json_stays_json_of_the_same_shape(value: object, ascii_only: bool) -> None:  # noqa: FBT001
    clean = json.loads(scrub(json.dumps(value, ensure_ascii=ascii_only)))
    assert clean == json.loads(json.dumps(_each(value)))


def _each(value: object) -> object:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [_each(item) for item in value]
    if isinstance(value, dict):
        return {scrub(key): _each(item) for key, item in value.items()}
    return value


@pytest.mark.long
@pytest.mark.parametrize("evil", EVIL)
def test_is_linear(evil: str) -> None:
    """No text makes the search go back and forth, which at this length would take minutes."""
    for text in (evil, "x" + evil, evil + "1"):
        clean = scrub(text * (300_000 // len(text)) + "PRIVATE KEY-----")
        assert scrub(clean) == clean
