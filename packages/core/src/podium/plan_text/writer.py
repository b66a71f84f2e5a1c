"""Writes plans in the three spellings, and their JSON schema and grammars."""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any, Literal, assert_never

from podium.types.plan import Plan
from podium.types.scope import MOST_DEPTH, label_of
from podium.types.steps import OUTER, PREVIOUS, AnyStep, Block, numbered, step_to_json

Spelling = Literal["lists", "json", "rows"]
"""The form of a plan's text: three labelled lists, one JSON object, or one JSON object per step."""

KEEP = '{"steps": []}'
"""The plan without steps in the spellings `json` and `rows`: "keep the previous answer"."""


def keep_text(spelling: Spelling) -> str:
    """Return the text of a plan without steps, which keeps the previous answer."""
    return _lists(Plan(()), None) if spelling == "lists" else KEEP


def write_plan(plan: Plan, spelling: Spelling, *, workers: Sequence[str] | None = None) -> str:
    """Return the text of `plan`, from which `parse_plan` reads the same plan; `lists` lose labels.

    Args:
        plan: the plan.
        spelling: the spelling of the text.
        workers: names of the workers, in the pool's order; `None` writes their numbers.

    Returns:
        The text: `lists` has three lines, `json` one line, `rows` one line per step, each
        with a newline at its end. `lists` cannot express `enough`, `tools` and keys of workflows: such a
        plan is written as `json`. Labels are written as ids, except in `lists`, which number steps from 0.
    """
    steps = written_steps(plan.steps, workers)
    match spelling:
        case "lists":
            has_more = plan.is_workflow or any(
                step.enough is not None or step.tools is not None for step in plan.calls
            )
            return _json({"steps": steps}) if has_more else _lists(plan, workers)
        case "json":
            return _json({"steps": steps})
        case "rows":
            return "".join(_json(step) + "\n" for step in steps) or KEEP + "\n"
        case _:
            assert_never(spelling)


def _lists(plan: Plan, workers: Sequence[str] | None) -> str:
    numbers, access = [step.worker for step in plan.calls], list[list[int | str]]()
    for index, step in enumerate(plan.steps):
        is_all = bool(step.access) and len(step.access) == index
        access.append([*step.access_list[: int(step.previous)], "all"] if is_all else step.access_list)
    return "\n".join(
        (
            f"model_id = {_json(numbers if workers is None else [workers[each] for each in numbers])}",
            f"subtasks = {_json([step.subtask for step in plan.calls])}",
            f"access_list = {_json(access)}",
        )
    )


def written_steps(steps: Sequence[AnyStep], workers: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return steps as in plan text, with their labels in place of their indices."""
    labels = [label_of(step, index) for index, step in enumerate(steps)]
    return [_object(step, workers) for step in numbered(steps, labels.__getitem__)]


def _object(step: AnyStep, workers: Sequence[str] | None) -> dict[str, Any]:
    facts = step_to_json(step, workers)
    own = {} if step.label is None else {"id": facts.pop("label")}
    if isinstance(step, Block) and step.plan:
        facts = {key: value for key, value in facts.items() if key not in ("steps", "parameters")}
    elif isinstance(step, Block):
        facts["steps"] = written_steps(step.steps, workers)
    return own | facts


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def plan_schema(
    workers: int,
    max_steps: int,
    *,
    keep: bool = False,
    workflows: bool = False,
    plans: Sequence[str] = (),
    tools: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the JSON schema of a plan in the spelling `json`.

    Args:
        workers: the number of workers.
        max_steps: maximum number of steps, also of each block.
        keep: whether a plan may be empty, and a step may see the previous round.
        workflows: whether steps may have the keys of workflows.
        plans: the names of the saved plans that steps may name, with `workflows`.
        tools: the names of the caller's tools that steps may name.
    """
    words = (PREVIOUS,) if keep else ()
    # No `maxLength` of subtasks: decoders then accept raw control characters, and vLLM refuses long patterns.
    task = {"worker": {"type": "integer", "enum": list(range(workers))}, "subtask": {"type": "string"}}
    names = {"type": "array", "items": {"type": "string", "enum": list(tools)}, "maxItems": len(tools)}
    also = {"tools": names} if tools else {}
    if workflows:
        step = _any_step(task, max_steps, words, plans=plans, also=also)
    else:
        step = _closed(task | {"access": _access(max_steps, words)}, also)
    steps = {"type": "array", "items": step, "minItems": 0 if keep else 1, "maxItems": max_steps}
    return _closed({"steps": steps}) | ({"$defs": _definitions()} if workflows else {})


def _access(max_steps: int, words: Sequence[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "integer"}
    if max_steps > 1:
        entry |= {"minimum": 0, "maximum": max_steps - 2}
    if words:
        entry = {"anyOf": [entry, {"type": "string", "enum": list(words)}]}
    return {"type": "array", "items": entry, "maxItems": max_steps - 1 + len(words)}


def _closed(fields: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields, and any of the optional ones."""
    known = fields | (optional or {})
    return {"type": "object", "properties": known, "required": list(fields), "additionalProperties": False}


def _any_step(
    task: dict[str, Any],
    max_steps: int,
    words: Sequence[str],
    *,
    depth: int = 0,
    plans: Sequence[str] = (),
    also: dict[str, Any],
) -> dict[str, Any]:
    """Return the schema of a step with any keys of workflows, in `depth` blocks; calls may have `also`."""
    condition, count = {"$ref": "#/$defs/condition"}, {"type": "integer", "minimum": 1}
    access = {"access": _access(max_steps, words)}
    keys = {
        "enough": count,
        "each": {"$ref": "#/$defs/each"},
        "as": {"type": "string"},
        "when": condition,
        "else": {"type": "integer", "minimum": 0},
    }
    kinds = [_closed(task | access, keys | {"returns": {"$ref": "#/$defs/returns"}} | also)]
    if plans:
        named = {"type": "string", "enum": list(plans)}
        args = {"type": "object", "additionalProperties": True}
        kinds.append(_closed({"plan": named, "args": args} | access, keys))
    if depth < MOST_DEPTH:  # not a recursive schema, which some servers refuse
        inner = _any_step(task, max_steps, (PREVIOUS, OUTER), depth=depth + 1, plans=plans, also=also)
        steps = {"steps": {"type": "array", "items": inner, "minItems": 1, "maxItems": max_steps}}
        kinds.append(_closed(steps | access, keys | {"until": condition, "most": count}))
    return {"anyOf": kinds}


def _definitions() -> dict[str, Any]:
    """Return the schemas of the values of keys of workflows."""
    string, any_object = {"type": "string"}, {"type": "object", "additionalProperties": True}
    simple = [string, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]
    flat = {"type": "array", "items": {"anyOf": simple}}
    value = {"anyOf": [*simple, flat, any_object]}
    values, number = {"type": "array", "items": value}, {"type": "number"}
    tests = {"is": value, "in": values, "not": value, "less": number, "more": number}
    tests["exists"] = {"type": "boolean"}
    # Each option has one test, and perhaps later ones: not all decoders know `minProperties`.
    names = list(tests)
    conditions = [
        _closed({"ref": string, name: tests[name]}, {other: tests[other] for other in names[at + 1 :]})
        for at, name in enumerate(names)
    ]
    return {
        "condition": {"anyOf": conditions},
        "each": {"anyOf": [string, {"type": "integer", "minimum": 0}, values]},
        "returns": {
            "anyOf": [string, any_object, {"type": "array", "items": {"anyOf": [string, any_object]}}]
        },
    }


_STRING = r"""
subtask ::= "\"" blank* visible char* "\""
char ::= [^"\\\x00-\x1F] | "\\" ["\\/bfnrt] | "\\u" hex hex hex hex
visible ::= [^"\\\x00-\x20] | "\\" ["\\/] | "\\u" hex hex hex hex
blank ::= " " | "\\" [bfnrt]
hex ::= [0-9a-fA-F]
""".strip()
_OF_WORKFLOWS = r"""
map ::= (", \"enough\": " count)? ", \"each\": " each (", \"as\": " name)?
each ::= ref | "0" | count | list
when ::= ", \"when\": " condition
else ::= ", \"else\": "
returns ::= ", \"returns\": " (string | list | object)
loop ::= ", \"until\": " condition ", \"most\": " count
around ::= "\"previous\"" (", \"outer\"")? | "\"outer\""
condition ::= "{\"ref\": " ref test test? test? "}"
test ::= ", \"" operator | ", \"exists\": " ("true" | "false")
operator ::= ("is" | "not") "\": " value | "in\": " list | ("less" | "more") "\": " number
ref ::= "\"{{" path path* "}}\""
path ::= [^"\\{}\x00-\x20]
name ::= "\"" [a-z_] [a-z0-9_]* "\""
count ::= [1-9] [0-9]? [0-9]? [0-9]?
value ::= string | number | "true" | "false" | "null" | list | object
list ::= "[" (value (", " value)*)? "]"
object ::= "{" (string ": " value (", " string ": " value)*)? "}"
string ::= "\"" char* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9] [0-9]*)?
""".strip()


def plan_grammar(  # noqa: PLR0913 - what a plan may have
    spelling: Spelling,
    workers: int,
    max_steps: int,
    *,
    keep: bool = False,
    workflows: bool = False,
    plans: Sequence[str] = (),
    tools: Sequence[str] = (),
) -> str:
    """Return a grammar of the plans that `write_plan` writes, in GBNF.

    Args:
        spelling: the spelling; `lists` cannot express workflows and tools.
        workers: the number of workers.
        max_steps: maximum number of steps, also of each block.
        keep: whether a plan may be empty, and a step may see the previous round.
        workflows: whether steps may have the keys of workflows. `enough` is in the grammar only with `each`.
        plans: the names of the saved plans that steps may name, with `workflows`.
        tools: the names of the caller's tools that steps may name.
    """
    if spelling == "lists":
        rules = _lists_rules(max_steps)
    else:
        rules = _object_rules(spelling, max_steps, workflows=workflows, plans=plans, tools=tools)
    root = "plan"
    if keep:
        root += " | " + _terminal(keep_text(spelling) + ("\n" if spelling == "rows" else ""))
    ids = " | ".join(_terminal(str(number)) for number in range(workers))
    access = [line for index in range(max_steps) for line in _access_rules(index, spelling, keep=keep)]
    rules = [f"root ::= {root}", *rules, f"worker ::= {ids}", *access, _STRING]
    return "\n".join([*rules, *([_OF_WORKFLOWS] if workflows else [])]) + "\n"


def _terminal(text: str) -> str:
    """Quote `text` for a grammar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _object_rules(
    spelling: Spelling, max_steps: int, *, workflows: bool, plans: Sequence[str], tools: Sequence[str]
) -> list[str]:
    """Return the rules for steps as objects: step `i + 1` may follow step `i`, up to the last."""
    is_json, end = spelling == "json", [] if spelling == "json" else [_terminal("\n")]
    head, tail = _terminal('{"steps": ['), _terminal("]}")
    rules = [f"plan ::= {head} steps-0 {tail}" if is_json else "plan ::= steps-0"]
    for index in range(max_steps):
        more = f'(", " steps-{index + 1})?' if is_json else f"steps-{index + 1}?"
        parts = [f"step-{index}", *end, *([more] if index + 1 < max_steps else [])]
        rules.append(f"steps-{index} ::= {' '.join(parts)}")
    head, middle, tail = (_terminal(part) for part in ('{"worker": ', ', "subtask": ', ', "access": '))
    step, end_of_call = f"{head} worker {middle} subtask {tail}", '"}"'
    if tools:
        names = " | ".join(_terminal(json.dumps(name)) for name in tools)
        rules += [f"tool ::= {names}", 'tools ::= ", \\"tools\\": [" (tool (", " tool)*)? "]"']
        end_of_call = 'tools? "}"'
    if workflows:
        named = [_terminal('{"plan": ' + json.dumps(name) + ', "args": ') for name in plans]
        saved = [f"saved ::= ({' | '.join(named)}) object {tail}"] if named else []
        rules += [f"call ::= {step}", *saved]
        return rules + _workflow_rules(max_steps, end_of_call, has_saved=bool(named))
    return rules + [f"step-{index} ::= {step} access-{index} {end_of_call}" for index in range(max_steps)]


def _workflow_rules(max_steps: int, end_of_call: str, *, has_saved: bool) -> list[str]:
    """Return the rules for steps with keys of workflows; in blocks, names of rules end in the depth."""
    rules, indices = list[str](), range(max_steps)
    for index in indices:
        seen = f"seen-{index}-0"
        access = f'(around (", " {seen})? | {seen})?' if index else "around?"
        earlier = " | ".join(_terminal(str(number)) for number in range(index))
        other = f" (else ({earlier}))?" if index else ""
        rules += [f'inside-{index} ::= "[" {access} "]"', f"also-{index} ::= map? (when{other})?"]
    head, tail = _terminal('{"steps": ['), _terminal('], "access": ')
    for depth, index in product(range(MOST_DEPTH + 1), indices):
        at, keys = f"-{depth}" if depth else "", f"{'inside' if depth else 'access'}-{index} also-{index}"
        if depth:
            more = f' (", " steps-{index + 1}{at})?' if index + 1 < max_steps else ""
            rules.append(f"steps-{index}{at} ::= step-{index}{at}{more}")
        block = f' | {head} steps-0-{depth + 1} {tail} {keys} loop? "}}"' if depth < MOST_DEPTH else ""
        block += f' | saved {keys} "}}"' if has_saved else ""
        rules.append(f"step-{index}{at} ::= call {keys} returns? {end_of_call}{block}")
    return rules


def _lists_rules(max_steps: int) -> list[str]:
    """Return the rules for labelled lists: one rule per number of steps, so the lists have equal lengths."""
    rules = ["plan ::= " + " | ".join(f"plan-{count}" for count in range(1, max_steps + 1))]
    heads = ("model_id = [", "]\nsubtasks = [", "]\naccess_list = [", "]")
    first, second, third, end = map(_terminal, heads)
    for count in range(1, max_steps + 1):
        ids, texts = (' ", " '.join([name] * count) for name in ("worker", "subtask"))
        access = ' ", " '.join(f"access-{index}" for index in range(count))
        rules.append(f"plan-{count} ::= {first} {ids} {second} {texts} {third} {access} {end}")
    return rules


def _access_rules(index: int, spelling: Spelling, *, keep: bool) -> list[str]:
    """Return the rules for the access list of a step: the previous round, and earlier steps in order."""
    before, everything = (_terminal(f'"{word}"') for word in (PREVIOUS, "all"))
    if index == 0:
        return [f'access-0 ::= "[" {before}? "]"' if keep else 'access-0 ::= "[]"']
    entries = f"seen-{index}-0"
    if spelling == "lists":
        entries = f"({entries} | {everything})"
    head = f'{before} (", " {entries})? | ' if keep else ""
    rules = [f'access-{index} ::= "[" ({head}{entries})? "]"']
    for first in range(index - 1):
        rest = f"seen-{index}-{first + 1}"
        rules.append(f'seen-{index}-{first} ::= "{first}" (", " {rest})? | {rest}')
    rules.append(f'seen-{index}-{index - 1} ::= "{index - 1}"')
    return rules
