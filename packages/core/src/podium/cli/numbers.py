"""Formats money, token counts and time spans for people."""


def money(cost: float | None) -> str:
    """Format a cost in USD; `None` as `unknown`."""
    if cost is None:
        return "unknown"
    if not cost:
        return "$0"
    if cost < 0.00005:
        return "<$0.0001"
    return f"${cost:.4f}" if cost < 0.99995 else f"${cost:,.2f}"


def short_count(count: int) -> str:
    """Format a count in at most six characters, as in 9,999, 12.3k, 123k and 1.2M."""
    if count < 10_000:
        return f"{count:,}"
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """Format a time span, as in 1.2 s, 2 min 5 s and 1 h 2 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def counted(count: int, what: str) -> str:
    """Format a count with its noun, as in 1 run and 2,000 runs."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
