"""The check of phrases that are hard to read."""

from pathlib import Path

from scripts.words import complaints, count, counts


def test_phrases_are_counted_over_line_breaks() -> None:
    """In any case; words that only contain a phrase do not count."""
    assert count("What it comes\nto, and whom it names. Whoever") == 3
    assert count("becomes to be; whomsoever; beit") == 0
    assert count("This is no plan. It goes on where there is one.") == 3
    assert count("There is no plan, and the default is no limit.") == 0


def test_each_file_is_counted(tmp_path: Path) -> None:
    """Files without a phrase are left out."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("be it so")
    (tmp_path / "docs/b.md").write_text("plain")
    assert counts(tmp_path) == {"docs/a.md": 1}


def test_a_number_may_only_fall() -> None:
    """A file that the baseline does not name may have none."""
    assert list(complaints({"README.md": 2}, {"README.md": 2})) == []
    assert list(complaints({"README.md": 1}, {"README.md": 2})) == []
    assert [line.partition(" ")[0] for line in complaints({"README.md": 1}, {})] == ["README.md"]
