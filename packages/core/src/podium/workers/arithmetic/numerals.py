"""Numbers written as English words: "twenty-five", "two hundred and fifty", "a dozen"."""

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {name: value for value, name in enumerate(_SMALL)} | {
    name: 10 * value for value, name in enumerate(_TENS, start=2)
}
SCALES = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
"""Words that multiply the number before them."""

_ONE = "(?:" + "|".join(sorted((*_VALUES, *SCALES), key=len, reverse=True)) + r")\b"
PATTERN = (
    rf"(?:a (?:{'|'.join(SCALES)})\b|(?:{'|'.join((*_TENS, *sorted(_SMALL, key=len, reverse=True)))})\b)"
    rf"(?:[ -]{_ONE}|(?<=hundred) and {_ONE}(?! (?:hundred|thousand|million))){{0,12}}"
)
"""What a number in words looks like, in lower case with single spaces."""


def numeral(text: str) -> int | None:
    """Return the value of a text that `PATTERN` matches; `None` when it is no single number."""
    total = current = 0
    room = 10**18
    for word in text.replace("-", " ").split():
        if word in ("a", "and"):
            current = 1 if word == "a" else current
        elif word in _VALUES:
            value = _VALUES[word]
            # "two three" is two numbers; "twenty three" and "hundred three" are one.
            if current % 10 or (current % 100 and value >= 10):
                return None
            current += value
        elif word in ("hundred", "dozen"):
            current *= SCALES[word]
        else:
            if SCALES[word] >= room:
                return None
            room = SCALES[word]
            total, current = total + current * SCALES[word], 0
    return total + current
