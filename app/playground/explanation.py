"""What just happened to the numbers, in words."""

from app.playground.grid import SIZES, Position, numbers_at
from isoscope.core.formatting import count, two_decimals

NOTICED = 0.05
"""Difference of two scores that a sentence is worth."""
LOW, EVEN = 0.05, 0.9
"""IsoScore of a line, about, and of a cloud that prefers no direction."""


def explain(position: Position) -> str:
    """Why mean cosine and IsoScore are what they are at a position of the grid."""
    found = numbers_at(position)
    many = numbers_at(position._replace(n=SIZES[-1]))
    sentences = _of_shift(position, found) if position.shift else _of_spread(position, found, many["isoscore"])
    if many["isoscore"] - found["isoscore"] > NOTICED:
        n, most = count(position.n), count(SIZES[-1])
        return (
            f"{sentences} Few rows make IsoScore low: it is {two_decimals(found['isoscore'])} of {n} points and "
            f"{two_decimals(many['isoscore'])} of {most} of the same cloud. The bias-corrected estimate from the {n} "
            f"is {two_decimals(found['isoscore_unbiased'])}."
        )
    return sentences


def _of_shift(position: Position, found: dict[str, float]) -> str:
    centred = numbers_at(position._replace(shift=0.0))
    return (
        f"The mean cosine is {two_decimals(found['mean_cosine'])} because the cloud lies away from the origin; around "
        f"the origin it is {two_decimals(centred['mean_cosine'])}. Its spread has not changed: IsoScore is "
        f"{two_decimals(found['isoscore'])} in both places."
    )


def _of_spread(position: Position, found: dict[str, float], isoscore: float) -> str:
    """Of a cloud around the origin, whose IsoScore would be ``isoscore`` if there were many points."""
    cosine = two_decimals(found["mean_cosine"])
    if found["mean_cosine"] > NOTICED:
        return (
            f"The mean cosine is {cosine} although the mean is the origin: the points crowd on one side of it. "
            f"IsoScore is {two_decimals(found['isoscore'])}."
        )
    if isoscore >= EVEN and isoscore - found["isoscore"] > NOTICED:
        return (
            f"The cloud is even and around the origin, but {count(position.n)} points of it are too few to show that: "
            f"their mean cosine is {cosine}."
        )
    if isoscore >= EVEN:
        return f"Around the origin and even, so that the mean cosine is {cosine}. Now move the shift."
    where = "all variance lies on one line" if isoscore < LOW else "some directions hold less variance than others"
    return (
        f"The mean cosine is {cosine}, as of a perfectly even cloud. IsoScore is {two_decimals(found['isoscore'])}: "
        f"{where}. A cosine near 0 is not isotropy."
    )
