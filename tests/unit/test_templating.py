import pytest

from app.web.templating import subscripted


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("S_X x_i λ_1²", "S<sub>X</sub> x<sub>i</sub> λ<sub>1</sub>²"),
        ("Σ_{i ≤ D} (u_i · y)", "Σ<sub>i ≤ D</sub> (u<sub>i</sub> · y)"),
        ("U Λ^(−1/2) Uᵀ", "U Λ<sup>−1/2</sup> Uᵀ"),
        ("E[x²]^{3/2}, N_k", "E[x²]<sup>3/2</sup>, N<sub>k</sub>"),
        ("ℓ_uniform", "ℓ<sub>uniform</sub>"),
        ("max CC_i, EV_k", "max CC<sub>i</sub>, EV<sub>k</sub>"),
        ("answer_start, max_steps, all_but_the_top", "answer_start, max_steps, all_but_the_top"),
        ("Σ_{i < D} <b>", "Σ<sub>i &lt; D</sub> &lt;b&gt;"),
    ],
)
def test_subscripts_and_superscripts_become_escaped_markup(text, markup):
    assert subscripted(text) == markup
