"""Numbers in sentences."""


def format_signed(value: float, digits: int = 3) -> str:
    """Return a difference with its sign: "+0.012", "−0.008" or "0.000"."""
    sign = "+" if round(value, digits) else ""
    return f"{value:{sign}z.{digits}f}".replace("-", "−")


def format_percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0") + "%"
