"""Interrupts (Ctrl-C, `sys.exit`) that a task group has wrapped."""


def interrupt_of(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the first `KeyboardInterrupt` or `SystemExit` in an exception group; `None` if it has none."""
    for each in group.exceptions:
        found = interrupt_of(each) if isinstance(each, BaseExceptionGroup) else each
        if isinstance(found, KeyboardInterrupt | SystemExit):
            return found
    return None
