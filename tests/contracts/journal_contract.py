"""The contract of every journal. Subclass it as `Test…`, with the fixture.

class TestMine(JournalContract):
    @pytest.fixture
    def journal(self) -> Journal: ...  # an empty journal, not entered
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from core.journal.happenings import course, ended, record_run, started, step_ended, stopped

from podium import Result
from podium.errors import ConfigError, JournalError, RunExists, RunHeld, RunUnknown
from podium.journal import Journal, Record
from podium.journal.journal import verify
from podium.types import RunEnded, RunStarted, StepDelta


@pytest.mark.anyio
class JournalContract:
    async def seen(self, journal: Journal, run_id: str) -> list[Record]:
        """Return the records of a run from a newly opened journal."""
        return list(await journal.records(run_id))

    async def test_keeps_a_run_in_order(self, journal: Journal) -> None:
        """What was appended is read back, equal and in order, after a flush by anyone."""
        first = started()
        told = list(course(first.run_id))
        async with journal:
            log = await journal.begin(first, minted=True)
            for event in told:
                log.append(event)
            await log.flush()
            assert len(await self.seen(journal, first.run_id)) == 1 + len(told)
            entries = await journal.read(first.run_id)
            await log.aclose()
        assert [entry.event for entry in entries] == [first, *told]
        assert [entry.number for entry in entries] == list(range(len(entries)))
        assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
        assert log.entries == ()

    async def test_knows_the_labels_of_answers(self, journal: Journal) -> None:
        """Those of all answers with a key, until their runs are deleted; an answer without a key has none."""
        async with journal:
            for run_id, key, labels in (("a", "k", "xy"), ("b", "k", "z"), ("c", "o", ""), ("d", "", "x")):
                result = Result(run_id=run_id, answer="Found.", status="ok", labels=frozenset(labels))
                await record_run(journal, run_id, replace(RunEnded.of(result), answer_key=key))
            found = {"k": frozenset("xyz"), "o": frozenset[str]()}
            assert await journal.answer_labels({"k", "o", "none"}) == found
            await journal.delete("b")
            assert await journal.answer_labels({"k"}) == {"k": frozenset("xy")}
            assert await journal.answer_labels(()) == {}

    async def test_an_id_is_begun_once(self, journal: Journal) -> None:
        """Who begins a run that is there is told so, and changes nothing."""
        async with journal:
            log = await journal.begin(started("mine"), minted=False)
            assert len(await self.seen(journal, "mine")) == 1  # durable, of an id that others may use
            with pytest.raises(RunExists, match="mine"):
                await journal.begin(started("mine", question="Another?"), minted=False)
            log.append(ended("mine"))
            await log.aclose()
            with pytest.raises(RunExists):
                await journal.begin(started("mine"), minted=False)
            events = [entry.event for entry in await journal.read("mine")]
        assert events == [started("mine"), ended("mine")]

    async def test_of_many_who_begin_an_id_one_does(self, journal: Journal) -> None:
        begun, refused = [], []

        async def begin() -> None:
            try:
                begun.append(await journal.begin(started("mine"), minted=False))
            except RunExists:
                refused.append(1)

        async with journal:
            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(begin)
            assert (len(begun), len(refused)) == (1, 9)
            await begun[0].aclose()

    async def test_refuses_ids_no_run_can_have(self, journal: Journal) -> None:
        for run_id in ("", "x" * 201, "a\0b", "\ud800"):
            with pytest.raises(ConfigError, match="run id"):
                await journal.begin(RunStarted(run_id=run_id, at=0.0, workers=()), minted=False)

    async def test_leaves_out_what_is_not_recorded(self, journal: Journal) -> None:
        """Pieces of text, events of other runs and a second start are no part of a run's record."""
        first = started()
        async with journal:
            log = await journal.begin(first, minted=True)
            log.append(first)
            log.append(step_ended("other", 0))
            log.append(StepDelta(run_id=first.run_id, at=0.1, round=1, step=0, attempt=1, text="Fo"))
            log.append(ended(first.run_id))
            log.append(step_ended(first.run_id, 1))
            await log.aclose()
            assert len(await journal.records(first.run_id)) == 2

    async def test_keeps_any_text(self, journal: Journal) -> None:
        """NUL, lone surrogates and huge texts are no reason to lose what was paid for."""
        first = started(question="\ud800 odd\0")
        texts = ["\0", "a\ud800b", '{"type": "run_ended", "__class__": "x"}', "é€😀" * 100_000]
        async with journal:
            log = await journal.begin(first, minted=False)
            for step, text in enumerate(texts):
                log.append(step_ended(first.run_id, step, text))
            await log.aclose()
            _, *entries = await journal.read(first.run_id)
        kept = [entry.event.outcome.text for entry in entries]  # type: ignore[union-attr]
        assert kept == [texts[0], "a\N{REPLACEMENT CHARACTER}b", *texts[2:]]

    async def test_what_cannot_be_written_fails_its_run_alone(self, journal: Journal) -> None:
        """An event that JSON cannot hold is told to its own run; others go on, and it can be taken up."""
        lost: list[str] = []
        bad = started("bad")
        async with journal:
            good = await journal.begin(started("good"), minted=True)
            log = await journal.begin(bad, minted=True)
            log.on_lost = lambda: lost.append("bad")
            odd = Result(run_id="bad", answer="", status="ok", tool_calls=({"odd": object()},))
            log.append(RunEnded(run_id="bad", at=0.3, result=odd))
            good.append(ended("good"))
            await good.flush()
            with pytest.raises(JournalError, match="run_ended"):
                await log.flush()
            with pytest.raises(JournalError):
                await log.aclose()
            await good.aclose()
            assert lost == ["bad"]
            again = await journal.claim("bad")
            assert [entry.event for entry in again.entries] == [bad]
            await again.aclose()

    async def test_a_run_is_held_until_it_is_given_up(self, journal: Journal) -> None:
        """Nobody takes a run that is carried out; whoever stops, ends or closes gives it up."""
        async with journal:
            for end in (ended, stopped, None):
                first = started()
                log = await journal.begin(first, minted=False)
                with pytest.raises(RunHeld):
                    await journal.claim(first.run_id)
                if end is not None:
                    log.append(end(first.run_id))
                    await log.flush()
                else:
                    await log.aclose()
                taken = await journal.claim(first.run_id)
                assert taken.recovery == 0
                await taken.aclose()
                await log.aclose()

    async def test_goes_on_where_it_stopped(self, journal: Journal) -> None:
        """A claimed log holds what was recorded, and what is appended follows it."""
        async with journal:
            await record_run(journal, "r", step_ended("r", 0), stopped("r"))
            assert (await journal.runs())[0].state == "stopped"
            log = await journal.claim("r")
            assert [entry.event for entry in log.entries] == [started("r"), step_ended("r", 0), stopped("r")]
            log.append(step_ended("r", 1))
            await log.flush()
            row = (await journal.runs())[0]
            assert (row.state, row.ended) == ("running", None)
            log.append(ended("r"))
            await log.aclose()
            records = await journal.records("r")
            assert (await journal.runs())[0].state == "ok"
        assert [record.number for record in records] == list(range(5))
        assert verify(records) is None

    async def test_what_was_claimed_and_left_alone_is_as_it_was(self, journal: Journal) -> None:
        async with journal:
            await record_run(journal, "r", ended("r"))
            before = await journal.runs()
            await (await journal.claim("r")).aclose()
            assert await journal.runs() == before

    async def test_says_that_there_is_no_such_run(self, journal: Journal) -> None:
        async with journal:
            for use in (journal.read, journal.records, journal.claim, journal.delete):
                with pytest.raises(RunUnknown, match="nobody"):
                    await use("nobody")

    async def test_lists_runs(self, journal: Journal) -> None:
        """The newest first; those that are nested, of one parent, beginning or time where asked for."""
        async with journal:
            for number in range(4):
                await record_run(journal, f"run{number}", ended(f"run{number}"), question="Why\n is  it?")
            inner = await journal.begin(started("inner", parent=("run2", 1, 0, 1)), minted=False)
            third = (await journal.runs(prefix="run2"))[0]
            for how, found in (
                ({}, "run3 run2 run1 run0"),
                ({"limit": 2}, "run3 run2"),
                ({"nested": True, "limit": 1}, "inner"),
                ({"parent": "run2"}, "inner"),
                ({"prefix": "run1"}, "run1"),
                ({"prefix": "%"}, ""),
                ({"since": third.began}, "run3 run2"),
                ({"since": third.began + 3600, "nested": True}, ""),
            ):
                assert [row.run_id for row in await journal.runs(**how)] == found.split()  # type: ignore[arg-type]
            pages = [row.run_id async for page in journal.pages(until=third.began) for row in page]
            assert pages == ["run2", "run1", "run0"]
            row = (await journal.runs(limit=None))[0]
            assert (row.question, row.state, row.cost, row.holder) == ("Why is it?", "ok", 0.0, None)
            assert row.ended is not None
            assert row.began <= row.ended
            running = (await journal.runs(parent="run2"))[0]
            assert (running.state, running.parent, running.ended) == ("running", "run2", None)
            assert running.holder is not None
            await inner.aclose()

    async def test_forgets_a_run_with_what_is_nested_in_it(self, journal: Journal) -> None:
        async with journal:
            for run_id, *parent in (["outer"], ["inner", "outer"], ["innermost", "inner"], ["other"]):
                nested = (*parent, 1, 0, 1) if parent else None
                await record_run(journal, run_id, ended(run_id), parent=nested)
            held = await journal.claim("innermost")
            with pytest.raises(RunHeld):
                await journal.delete("outer")
            await held.aclose()
            await journal.delete("outer")
            assert [row.run_id for row in await journal.runs(nested=True)] == ["other"]
            with pytest.raises(RunUnknown):
                await journal.records("innermost")

    async def test_prunes_what_ended_long_ago(self, journal: Journal) -> None:
        """Runs that ended before then go, and none that is carried out."""
        async with journal:
            await record_run(journal, "old", ended("old"))
            held = await journal.begin(started("held"), minted=False)
            assert (await journal.prune(3600.0), await journal.count_old(3600.0)) == (0, 0)
            await anyio.sleep(0.01)
            assert (await journal.count_old(0.0), await journal.prune(0.0)) == (1, 1)
            assert await journal.count_old(0.0) == 0
            assert [row.run_id for row in await journal.runs()] == ["held"]
            await held.aclose()

    async def test_a_cancelled_flush_loses_nothing(self, journal: Journal) -> None:
        first = started()
        async with journal:
            log = await journal.begin(first, minted=True)
            log.append(step_ended(first.run_id, 0))
            with anyio.CancelScope() as scope:
                scope.cancel()
                await log.flush()
            assert scope.cancelled_caught
            await log.aclose()
            assert len(await journal.records(first.run_id)) == 2

    async def test_closing_under_a_cancel_gives_the_run_up(self, journal: Journal) -> None:
        first = started()
        async with journal:
            log = await journal.begin(first, minted=True)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await log.aclose()
            with anyio.fail_after(10):
                while [row.holder for row in await journal.runs()] != [None]:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            await (await journal.claim(first.run_id)).aclose()

    def test_is_used_from_two_event_loops(self, journal: Journal) -> None:
        async def carry_out(name: str) -> None:
            async with journal:
                for number in range(5):
                    await record_run(journal, f"{name}{number}")

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda name: anyio.run(carry_out, name), "ab"))
        assert len(anyio.run(lambda: journal.runs(limit=None))) == 10
