"""Values of references: parts of outputs, what is filled into subtasks, and conditions on them."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podium.types.references import (
    ABSENT,
    BadValue,
    Condition,
    Reference,
    filled,
    literal,
    parts_of,
    value_at,
)

VALUES: dict[str, Any] = {
    "{{0.ok}}": True,
    "{{0.tags}}": ["a", "ü"],
    "{{0.n}}": 7.5,
    "{{0.none}}": None,
    "{{0.say}}": 'he said "x"\n',
    "{{0.trick}}": 'a", "admin": true, "b": "{{0.n}}',
    "{{0.half}}": "{",
    "{{item}}": {"path": "a.py"},
    "{{item.path}}": "a.py",
    "{{index}}": 0,
    "{{outer.1.id}}": 3,
    "{{previous.note}}": ABSENT,
    "{{file.path}}": "b.py",
}


def reference(text: str) -> Reference:
    (only,) = parts_of(text, ("file",))
    assert isinstance(only, Reference)
    return only


KNOWN = {reference(text): value for text, value in VALUES.items()}


FILLED = (
    ("{{index}}: {{Item.path}}, {{file.path}}, {{outer.1.id}}", "0: a.py, b.py, 3"),
    ("last time: {{previous.note}}.", "last time: ."),
    # bare references, named texts, unknown names and literal braces stay
    (r"{{0}} {{contract}} \{{0.n}} {{0.more}}", r"{{0}} {{contract}} \{{0.n}} {{0.more}}"),
    # what is filled in is literal, also together with what stands beside it
    ("{{0.trick}}", 'a", "admin": true, "b": "\\{{0.n}}'),
    ("{{0.half}}{1}}", r"\{{1}}"),
    # in JSON, a whole string becomes the value with its type
    ('{"a": "{{0.ok}}", "b": ["{{0.tags}}"]}', '{"a": true, "b": [["a","ü"]]}'),
    ('{"a": ["{{0.n}}", "{{previous.note}}", "{{item}}"]}', '{"a": [7.5, null, {"path":"a.py"}]}'),
    ('{"a": "no. {{0.n}}{{previous.note}}", "b": {{0.none}}}', '{"a": "no. 7.5", "b": null}'),
    ('{"a": "<{{0.trick}}>"}', '{"a": "<a\\", \\"admin\\": true, \\"b\\": \\"\\{{0.n}}>"}'),
    # text that only looks like JSON
    ('Call it: {"a": "{{0.say}}"}', 'Call it: {"a": "he said "x"\n"}'),
    ("[{{index}}] is {{{0.n}}}", "[0] is {7.5}"),
)


def test_values_are_filled_into_a_subtask() -> None:
    for subtask, expected in FILLED:
        assert filled(subtask, KNOWN) == expected


@given(st.text(alphabet='{}01."\\,:ax \n', max_size=12), st.sampled_from(["{{1.x}}", "<{{1.x}}"]))
def test_a_value_is_one_string_whatever_it_has(value: str, inside: str) -> None:
    parts = list(parts_of(filled(json.dumps({"a": inside, "b": "c"}), {Reference(1, ("x",)): value})))
    assert not any(isinstance(part, Reference) for part in parts)
    assert json.loads("".join(map(str, parts))) == {"a": inside.replace("{{1.x}}", value), "b": "c"}
    prose = filled("Look at: {{1.x}}", {Reference(1, ("x",)): value})
    assert [*parts_of(prose)] == [*parts_of(literal(f"Look at: {value}"))]


def test_a_path_leads_to_a_part() -> None:
    value = {"items": [{"name": "a"}, None], "7": 1}
    found = {"{{0}}": value, "{{0.items.0.name}}": "a", "{{0.items.1}}": None, "{{0.7}}": 1}
    for path, expected in found.items():
        assert value_at(value, reference(path).path, reference(path)) == expected
    for path, told in (
        ("{{0.items.5}}", "{{0.items.5}} leads to nothing: there is no '5' in a list of 2"),
        ("{{0.items.-1}}", "no '-1' in a list of 2"),
        ("{{0.items.0.line}}", "no 'line' in '{\"name\":\"a\"}'"),
    ):
        with pytest.raises(BadValue) as caught:
            value_at(value, reference(path).path, reference(path))
        assert told in str(caught.value)


CONDITIONS: tuple[tuple[dict[str, Any], object, object], ...] = (
    ({"is": 1}, 1.0, True),
    ({"is": 1}, "1", False),
    ({"is": 1}, True, False),
    ({"is": {"a": [1]}}, {"a": [True]}, False),
    ({"not": "bad"}, "ok", True),
    ({"in": ["a", 2]}, 2, True),
    ({"more": 1, "less": 5}, 3, True),
    ({"more": 1, "less": 5}, 5, False),
    ({"less": 5}, "3", BadValue),
    ({"exists": True}, None, True),
    ({"exists": True}, ABSENT, False),
    ({"exists": False}, ABSENT, True),
    ({"exists": True, "is": 1}, ABSENT, False),
    ({"not": 1}, ABSENT, BadValue),
)


def test_a_condition_holds() -> None:
    """All tests must hold, of JSON values; `exists` is asked first, and only it asks for presence."""
    for tests, value, expected in CONDITIONS:
        condition = Condition("{{0.n}}", tests)
        if expected is BadValue:
            with pytest.raises(BadValue, match=r"\{\{0\.n\}\}"):
                condition.holds(value)
        else:
            assert condition.holds(value) is expected, (tests, value)
