"""The entry point of the command `podium`. It imports little, so that Ctrl-C works from the start."""

import signal


def main() -> None:
    """Run the command line on `sys.argv`, and exit with its exit code."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:  # else Ctrl-C during the imports would show a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from podium.cli.root import run  # noqa: PLC0415 - so that Ctrl-C is handled before

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
