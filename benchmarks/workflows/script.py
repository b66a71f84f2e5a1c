"""The script that the manager of pydantic-ai writes."""

from benchmarks.workflows.job import DOUBT, LIST, READ, REVIEW, SCEPTICS, TURNS, WRITE

SCRIPT = f"""
import asyncio

async def one(path):
    note = (await reader(task={READ!r}.replace("{{path}}", path)))["note"]
    task = {REVIEW!r}.replace("{{path}}", path).replace("{{note}}", note)
    findings = (await reviewer(task=task))["findings"]
    tasks = [
        {DOUBT!r}
        .replace("{{path}}", each["path"])
        .replace("{{claim}}", each["claim"])
        .replace("{{index}}", str(index))
        for each in findings
        for index in range({SCEPTICS})
    ]
    return await asyncio.gather(*[sceptic(task=each) for each in tasks])

files = (await lister(task={LIST!r}))["files"]
votes = await asyncio.gather(*[one(each["path"]) for each in files])
report = {{"version": "", "complete": False, "report": ""}}
for _ in range({TURNS}):
    task = {WRITE!r}.replace("{{version}}", str(report["version"]))
    shown = "Votes: " + str(votes) + " Version before: " + str(report["report"])
    report = await writer(task=shown + " " + task)
    if report["complete"]:
        break
report
"""
