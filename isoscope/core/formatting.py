"""Format numbers, sizes, times and names for readers: three digits, a true minus, units, a true star.

Names from users are quoted and shortened.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from math import floor, log10

from isoscope.core.errors import IsoscopeError

MISSING = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB")
UNIT_SECONDS = (("day", 86_400), ("hour", 3_600), ("minute", 60))
MAX_SHOWN_CHARACTERS = 80
MAX_LISTED = 10


def number(value: float | None, digits: int = 3) -> str:
    """Format to significant digits, without rounding integer digits: 0.847, −12.3, 48,213, 1.20 × 10⁻⁵."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    exponent = floor(log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -4 or exponent > 8:
        mantissa = f"{value:.{digits - 1}e}".split("e")[0]
        return _with_true_minus(f"{mantissa} × 10{str(exponent).translate(SUPERSCRIPTS)}")
    return _with_true_minus(f"{value:,.{max(digits - 1 - exponent, 0)}f}")


def with_error(value: float, half_width: float | None) -> str:
    """Format a number with half the width of its 95% interval: −0.005 ± 0.066. Without one, use three digits."""
    if not half_width:
        return number(value) + ("" if half_width is None else " ± 0")
    margin = number(half_width, 2)
    if "×" in margin:
        return f"{number(value)} ± {margin}"
    decimals = len(margin.partition(".")[2])
    return _with_true_minus(f"{value:z,.{decimals}f} ± {margin}")


def significant(value: float, error: float | None) -> str:
    """Format to three digits, or to the decimals of the error if it has fewer: 0.0908 with 0.030 becomes 0.091."""
    value_text = number(value)
    error_text = number(error, 2) if error else ""
    decimals = len(error_text.partition(".")[2])
    if not error_text or "×" in error_text + value_text or decimals >= len(value_text.partition(".")[2]):
        return value_text
    return _with_true_minus(f"{value:z,.{decimals}f}")


def with_se(value: float | None, se: float | None) -> str:
    """Format a number with its standard error: 0.091 (SE 0.030)."""
    return number(value) if value is None or not se else f"{significant(value, se)} (SE {number(se, 2)})"


def two_decimals(value: float) -> str:
    """Format a cosine or score: 0.40, −0.13, never −0.00."""
    return _with_true_minus(f"{value:.2f}".replace("-0.00", "0.00"))


def short(value: float | None) -> str:
    """Format a setting as a user would type it: −1, 0.2, 3e−5."""
    return MISSING if value is None else _with_true_minus(f"{value:.12g}".replace("e-0", "e-"))


def tick(value: float) -> str:
    """Format the end of a scale: integers in full, other numbers to three digits."""
    return count(int(value)) if value == int(value) else number(value)


def count(value: int | None) -> str:
    """Format an integer with thousands marked: 250,000."""
    return MISSING if value is None else _with_true_minus(f"{value:,}")


def percent(share: float) -> str:
    """Format a share from 0 to 1 without rounding it to 0% or 100%: 0.4%, 61%, 99.7%, more than 99.9%."""
    percentage = 100 * share
    if 0 < percentage < 0.05:
        return "less than 0.1%"
    if 99.95 <= percentage < 100:
        return "more than 99.9%"
    digits = 1 if 0 < percentage < 9.95 or 99 < percentage < 100 else 0
    return f"{percentage:.{digits}f}%"


def plural(value: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun: 1 run, 9 runs."""
    return f"{count(value)} {noun if value == 1 else nouns or noun + 's'}"


def size(value: int) -> str:
    """Format bytes in decimal units: 9.61 MB."""
    amount, unit_index = float(value), 0
    while amount >= 1000 and unit_index < len(BYTE_UNITS) - 1:
        amount, unit_index = amount / 1000, unit_index + 1
    return f"{value} {BYTE_UNITS[0]}" if unit_index == 0 else f"{number(amount)} {BYTE_UNITS[unit_index]}"


def limit(value: int) -> str:
    """Format a limit in bytes as a whole number of GiB, MiB or KiB if it is one, and like ``size`` otherwise."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value and value % 2**power == 0:
            return f"{count(value >> power)} {unit}"
    return size(value)


def duration(seconds: float | None) -> str:
    """Format a time in its two largest units, 2 min 5 s, or in tenths of a second below ten seconds."""
    if seconds is None:
        return MISSING
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    amounts = [(days, "d"), (hours, "h"), (minutes, "min"), (remaining_seconds, "s")]
    largest = next(index for index, (amount, _) in enumerate(amounts) if amount)
    return " ".join(f"{amount} {unit}" for amount, unit in amounts[largest : largest + 2] if amount)


def durations(low: float, high: float) -> str:
    """Format a range of times: 40 s to 1 min 5 s; a single time if both ends format alike."""
    shortest, longest = duration(low), duration(high)
    return shortest if shortest == longest else f"{shortest} to {longest}"


def about(seconds: float) -> str:
    """Round a duration to the largest unit that fits at least twice: 24 hours, 90 seconds."""
    noun, length = next(((noun, length) for noun, length in UNIT_SECONDS if seconds >= 2 * length), ("second", 1))
    return plural(max(1, round(seconds / length)), noun)


def ago(moment: datetime, now: datetime) -> str:
    """Format the time since a moment in its largest unit: 3 minutes ago."""
    seconds = (now - moment).total_seconds()
    for noun, length in UNIT_SECONDS:
        if seconds >= length:
            return f"{plural(int(seconds // length), noun)} ago"
    return "just now"


def one_line(text: str) -> str:
    """Collapse whitespace and unprintable characters into single spaces."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def quote_for_search(text: str) -> str:
    """Quote a value for a query of the run search."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def starred(name: str) -> str:
    """Return a measure's name with a true star: IsoScore★."""
    return name.replace("*", "★")


def _with_true_minus(text: str) -> str:
    return text.replace("-", "−")


def quote(name: str) -> str:
    """Quote a name for a message, shortened to 80 characters."""
    ellipsis = "..." if len(name) > MAX_SHOWN_CHARACTERS else ""
    return repr(name[:MAX_SHOWN_CHARACTERS]) + ellipsis


def listed(names: Collection[str]) -> str:
    """Return the first ten names in quotes, and the number of further names: 'a', 'b' and 3 more."""
    suffix = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(quote, islice(names, MAX_LISTED))) + suffix


@contextmanager
def prefixed_errors(filename: str, field: str | None = None) -> Iterator[None]:
    """Put the file name before the message of errors, and set their form field if they have none."""
    try:
        yield
    except IsoscopeError as error:
        raise type(error)(f"{filename}: {error.message}", error.field or field) from None


def storable(text: str) -> str:
    """Replace characters that UTF-8 or PostgreSQL cannot hold: lone surrogates by "?", NUL by U+FFFD."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
