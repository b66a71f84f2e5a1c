"""What a training tells people while it runs."""

from io import StringIO

from rich.console import Console

from podium_train.run_files import Reporter


def test_lines() -> None:
    """Without a terminal each step is a line; markup in texts is text."""
    out = StringIO()
    told = Reporter(Console(file=out))
    told.step(3, 10, "reward [b]0.5[/b]")
    told.line("2 examples are too long")
    assert out.getvalue() == "step 3 of 10: reward [b]0.5[/b]\n2 examples are too long\n"
