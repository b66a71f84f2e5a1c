"""What a training tells people while it runs."""

from io import StringIO

from rich.console import Console
from rich.progress import Progress, TextColumn

from podium_train.progress import BarReporter, Reporter, reporter


def test_lines() -> None:
    """Without a terminal each step is a line; markup in texts is text."""
    out = StringIO()
    told = Reporter(Console(file=out))
    told.step(3, 10, "reward [b]0.5[/b]")
    told.line("2 examples are too long")
    assert out.getvalue() == "step 3 of 10: reward [b]0.5[/b]\n2 examples are too long\n"


def test_a_bar() -> None:
    """It begins at the step from which a run continues, and shows the text of the last step."""
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with Progress(
        TextColumn("{task.completed}/{task.total} {task.fields[told]}"), console=console
    ) as progress:
        told = BarReporter(progress)
        told.step(41, 50, "reward 0.5")
        told.line("a line")
        told.step(42, 50, "reward 0.6")
    assert "40/50" in out.getvalue()
    assert "42/50 reward 0.6" in out.getvalue()
    assert "a line" in out.getvalue()


def test_no_terminal() -> None:
    """The standard output of tests is none."""
    with reporter() as told:
        assert type(told) is Reporter
