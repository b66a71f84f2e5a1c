"""The picture of a run in the README."""

from pathlib import Path

import pytest

from scripts import run_picture


@pytest.mark.long
def test_picture_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script draws the steps of a run, those of a nested run, and the summary."""
    target = tmp_path / "images" / "run.svg"
    monkeypatch.setattr(run_picture, "_TARGET", target)
    run_picture.main()
    drawn = target.read_text(encoding="utf-8").replace("&#160;", " ")
    for told in ("plan by conductor-7b", "0 research team", "3 reader", "answered by writer: 5 steps ok"):
        assert told in drawn
