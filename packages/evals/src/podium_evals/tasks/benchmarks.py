r"""The benchmarks of the seven tasks on which the original conductor was trained and measured.

The argument of each function is a row with the columns of its source. The column names were found in code
that reads these sources, not in the sources themselves.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from string import ascii_uppercase
from typing import Any

from podium_evals.recorded import Origin, OriginFile, Provenance
from podium_evals.tasks.task import HubFiles, HubSplit, Row, Task

HUB = "https://huggingface.co/datasets/"
PRM800K = "7ecc794703b2877f63226f2477a49b34f9b25163"
"""A commit of `openai/prm800k`."""
LONGEST_RLPR = 30
"""Maximum number of characters of a right answer. Questions with longer answers are left out, because no rule
can compare them."""
_BOXED = "Put the final answer in \\boxed{}."


def _aime25(row: Row) -> Mapping[str, Any]:
    text = f"{row['problem']}\n\nThe answer is an integer from 0 to 999. {_BOXED}"
    return {"id": f"aime25/{row['id']}", "kind": "aime25", "question": text, "answer": str(row["answer"])}


def _math500(row: Row) -> Mapping[str, Any]:
    return {
        "id": f"math500/{row['unique_id']}",
        "kind": f"math500/{_slug(row['subject'])}",
        "level": str(row["level"]),
        "question": f"{row['problem']}\n\n{_BOXED}",
        "answer": row["answer"],
    }


def _gpqa(row: Row) -> Mapping[str, Any]:
    """Return a question with four options. Their order depends on the question, and is the same each time."""
    text, right = row["Question"].strip(), row["Correct Answer"].strip()
    wrong = [row[f"Incorrect Answer {number}"].strip() for number in (1, 2, 3)]
    options = sorted([right, *wrong], key=lambda option: sha256(f"{text}\n{option}".encode()).digest())
    return {
        "id": f"gpqa-diamond/{row['Record ID']}",
        "kind": f"gpqa/{_slug(row['High-level domain'])}",
        "question": text,
        "options": options,
        "answer": ascii_uppercase[options.index(right)],
    }


def _mmlu(row: Row) -> Mapping[str, Any]:
    options = [str(option) for option in row["choices"]]
    answer = row["answer"]  # the viewer has the number of the option; some exports have its letter
    return {
        "kind": f"mmlu/{_slug(row['subject'])}",
        "question": row["question"],
        "options": options,
        "answer": ascii_uppercase[answer] if isinstance(answer, int) else str(answer),
    }


def _rlpr(row: Row) -> Mapping[str, Any] | None:
    answer = str(row["reward_model"]["ground_truth"]).strip()
    asked = [message["content"] for message in row["prompt"] if message["role"] == "user"]
    if not answer or len(answer) > LONGEST_RLPR or not asked:
        return None
    return {
        "kind": f"rlpr/{_slug(str(row['ability']))}",
        "question": f"{asked[-1].strip()}\n\n{_BOXED}",
        "answer": answer,
    }


def _livecodebench(row: Row) -> Mapping[str, Any]:
    cases = json.loads(row["public_test_cases"])
    starter = row["starter_code"]
    if starter:
        form = f"Complete this code, and write all of it in one Python block.\n\n```python\n{starter}\n```"
    else:
        form = "Write a Python program in one block. It reads from stdin, and writes the answer to stdout."
    tests = {
        "type": "call" if starter else "stdin",
        "cases": [{"input": case["input"], "output": case["output"]} for case in cases],
        "packed": row["private_test_cases"],
    }
    if starter:
        tests["function"] = json.loads(row["metadata"])["func_name"]
    return {
        "id": f"livecodebench/{row['question_id']}",
        "kind": f"livecodebench/{row['platform']}",
        "level": row["difficulty"],
        "question": f"{row['question_content'].strip()}\n\n{form}",
        "tests": tests,
    }


def _slug(name: str) -> str:
    return "-".join(name.lower().split()) or "other"


def _hub(dataset: str, citation: str, licence: str = "", revision: str = "") -> Provenance:
    return Provenance(source=HUB + dataset, revision=revision, licence=licence, citation=citation)


_MATH500 = Origin(
    name="math500",
    provenance=Provenance(
        source="https://github.com/openai/prm800k",
        revision=PRM800K,
        licence="MIT",
        citation="Hendrycks et al. 2021, Measuring Mathematical Problem Solving With the MATH Dataset, "
        "arXiv:2103.03874; the 500 of Lightman et al. 2023, arXiv:2305.20050",
    ),
    url=f"https://media.githubusercontent.com/media/openai/prm800k/{PRM800K}/",
    files=(
        OriginFile(
            path="prm800k/math_splits/test.jsonl",
            size=446_564,
            sha256="35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
        ),
    ),
)
_LIVECODEBENCH = HubFiles(
    dataset="livecodebench/code_generation_lite",
    revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
    paths=("test6.jsonl",),
)

_ALL = (
    Task(
        name="aime25",
        source=HubSplit(dataset="math-ai/aime25"),
        provenance=_hub("math-ai/aime25", "American Invitational Mathematics Examination 2025, I and II"),
        grader="math",
        question=_aime25,
    ),
    Task(name="math500", source=_MATH500, provenance=_MATH500.provenance, grader="math", question=_math500),
    Task(
        name="gpqa-diamond",
        source=HubSplit(dataset="Idavidrein/gpqa", config="gpqa_diamond", split="train"),
        provenance=_hub(
            "Idavidrein/gpqa",
            "Rein et al. 2023, GPQA: A Graduate-Level Google-Proof Q&A Benchmark, arXiv:2311.12022",
            "CC-BY-4.0",
        ),
        grader="choice",
        question=_gpqa,
        gated=f"accept its terms at {HUB}Idavidrein/gpqa; then set HF_TOKEN to your token, or download "
        f"gpqa_diamond.csv and use --file",
    ),
    Task(
        name="mmlu",
        source=HubSplit(dataset="cais/mmlu", config="all"),
        provenance=_hub(
            "cais/mmlu",
            "Hendrycks et al. 2021, Measuring Massive Multitask Language Understanding, arXiv:2009.03300",
            "MIT",
        ),
        grader="choice",
        question=_mmlu,
    ),
    Task(
        name="rlpr",
        source=HubSplit(dataset="openbmb/RLPR-Train-Dataset", split="train"),
        provenance=_hub(
            "openbmb/RLPR-Train-Dataset",
            "Yu et al. 2025, RLPR: Extrapolating RLVR to General Domains without Verifiers, arXiv:2506.18254",
        ),
        grader="math",
        question=_rlpr,
    ),
    Task(
        name="livecodebench",
        source=_LIVECODEBENCH,
        provenance=_hub(
            _LIVECODEBENCH.dataset,
            "Jain et al. 2024, LiveCodeBench: Holistic and Contamination Free Evaluation of Large Language "
            "Models for Code, arXiv:2403.07974",
            revision=_LIVECODEBENCH.revision,
        ),
        grader="code",
        question=_livecodebench,
    ),
)
TASKS: Mapping[str, Task] = {task.name: task for task in _ALL}
"""The tasks, by name."""
