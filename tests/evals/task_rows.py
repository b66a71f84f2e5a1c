"""Small samples of our own in the formats of known benchmarks."""

import base64
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

AIME25 = [{"id": str(n), "problem": f"What is ${n} + {n}$?", "answer": str(2 * n)} for n in range(3)]
MATH500 = [
    {
        "problem": r"What is $\frac12 + \frac14$?",
        "solution": r"$\boxed{\frac{3}{4}}$",
        "answer": r"\frac{3}{4}",
        "subject": "Prealgebra",
        "level": 1,
        "unique_id": "test/prealgebra/1.json",
    }
]
GPQA = [
    {
        "Record ID": f"rec{n}",
        "Question": f"Which is the colour number {n}? ",
        "Correct Answer": "red\n",
        "Incorrect Answer 1": "green",
        "Incorrect Answer 2": "blue",
        "Incorrect Answer 3": "white",
        "High-level domain": "Physics",
        "Subdomain": "Optics and Acoustics",
        "Explanation": "It is.",
    }
    for n in range(8)
]
MMLU = [
    {
        "question": f"What is {n} + 1?",
        "subject": "abstract_algebra",
        "choices": ["0", str(n + 1), "a", "b"],
        "answer": 1,
    }
    for n in range(120)
]
RLPR = [
    {
        "data_source": "WebInstruct-verified",
        "prompt": [
            {"role": "system", "content": "Think."},
            {"role": "user", "content": "How fast is it, in m/s?"},
        ],
        "ability": "Physics",
        "reward_model": {"ground_truth": "5.2 m/s", "style": "rule"},
        "extra_info": {},
    },
    {
        "data_source": "WebInstruct-verified",
        "prompt": [{"role": "user", "content": "Why?"}],
        "ability": "Other",
        "reward_model": {
            "ground_truth": "Because of a long story that no rule can compare.",
            "style": "rule",
        },
        "extra_info": {},
    },
]
_HIDDEN = [{"input": "5\n", "output": "10\n", "testtype": "stdin"}]
_HIDDEN_CALL = [{"input": "5", "output": "10", "testtype": "functional"}]


def _packed(cases: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases)))).decode()


LIVECODEBENCH = [
    {
        "question_title": "Twice",
        "question_content": "Print twice the number.",
        "platform": "atcoder",
        "question_id": "abc000_a",
        "contest_id": "abc000",
        "contest_date": "2025-01-04T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps([{"input": "3\n", "output": "6\n", "testtype": "stdin"}]),
        "private_test_cases": _packed(_HIDDEN),
        "metadata": "{}",
    },
    {
        "question_title": "Twice",
        "question_content": "Return twice the number.",
        "platform": "leetcode",
        "question_id": "1",
        "contest_id": "weekly-contest-1",
        "contest_date": "2025-01-04T00:00:00",
        "starter_code": "class Solution:\n    def twice(self, x: int) -> int:\n        ",
        "difficulty": "hard",
        "public_test_cases": json.dumps([{"input": "3", "output": "6", "testtype": "functional"}]),
        "private_test_cases": _packed(_HIDDEN_CALL),
        "metadata": '{"func_name": "twice"}',
    },
]
ROWS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "aime25": AIME25,
    "math500": MATH500,
    "gpqa-diamond": GPQA,
    "mmlu": MMLU,
    "rlpr": RLPR,
    "livecodebench": LIVECODEBENCH,
}
RIGHT = {
    "aime25": r"Easy: \boxed{000}",
    "math500": r"It is $\boxed{\dfrac{3}{4}}$.",
    "rlpr": r"\boxed{5.2\text{ m/s}}",
    "livecodebench": "```python\nprint(2 * int(input()))\n```",
}
"""A right answer to the first question."""
