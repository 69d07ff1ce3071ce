from itertools import combinations
from math import dist

import pytest

from app.figures import palette

PAPERS = ("#ffffff", "#14171a")
LAMBDAS = (-50, -10, -5, -3, -1, -0.5, -0.1, -0.01, 0, 0.01, 0.1, 0.5, 1, 3, 5, 10, 50)
GRIDS = ((-5, -3, -1, 0, 1, 3, 5), (-1, -0.3, 0, 0.3, 1), (0, 0.01, 0.1, 1, 10))


def channels(color):
    return [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]


def luminance(color):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("paper", PAPERS)
def test_colors_contrast_with_light_and_dark_paper(paper):
    colors = [palette.MAIN, palette.SECOND, palette.MARKED, palette.QUIET, *palette.SERIES, *palette.METHODS.values()]
    colors += [palette.ordered_color(step / 10) for step in range(11)]
    colors += [palette.lambda_color(lam) for lam in LAMBDAS]
    assert [color for color in colors if contrast(color, paper) < 3] == []


def test_lambda_color_encodes_sign_and_size():
    red, green, blue = channels(palette.lambda_color(-1))
    assert blue > green > red
    red, green, blue = channels(palette.lambda_color(1))
    assert red > green > blue
    red, green, blue = channels(palette.lambda_color(0))
    assert max(red, green, blue) - min(red, green, blue) < 0.05
    for sign in (-1, 1):
        brightness = [luminance(palette.lambda_color(sign * lam)) for lam in (0.01, 0.1, 0.5, 1, 3, 5, 10)]
        assert brightness == sorted(brightness, reverse=True)
    assert palette.lambda_color(10) == palette.lambda_color(50)


@pytest.mark.parametrize("grid", GRIDS)
def test_lambdas_of_usual_grids_have_distinct_colors(grid):
    colors = [channels(palette.lambda_color(lam)) for lam in grid]
    assert min(dist(first, second) for first, second in combinations(colors, 2)) > 0.06


def test_opacity_keeps_channels_and_larger_zeta_is_darker():
    assert palette.with_opacity("#14938d", 0.25) == "rgba(20, 147, 141, 0.25)"
    for colors in ([palette.ordered_color(step / 5) for step in range(6)], palette.SCALE):
        brightness = [luminance(color) for color in colors]
        assert brightness == sorted(brightness, reverse=True)
