"""The colours and markers of the pictures."""

TEXT, LINE, PALE = "#1f2430", "#3b4252", "#c3c9d4"
COLOURS = {
    "random worker": "#9aa3b2",
    "random plan": "#6b7280",
    "best single": "#1f2430",
    "kind rule": "#0072b2",
    "learned router": "#009e73",
    "vote of the best 3": "#d55e00",
    "vote of the best 5": "#e69f00",
    "best single 3 times": "#8e44ad",
    "routing oracle": "#56b4e9",
    "any correct, not achievable": "#dbe7ff",
}
MARKERS = dict(zip(COLOURS, "ov*sDP^Xhd", strict=True))
