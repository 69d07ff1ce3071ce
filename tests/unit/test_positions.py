import pytest
import torch

from app.core.names import describe_method
from app.db.models import Embedding, Measurement
from app.postprocess import method_settings
from app.postprocess.method_settings import DRAWN_ROWS, check_settings, count_trial_rows, parse_parameters
from app.postprocess.trial import TrialComparison, describe_outcome
from isoscope.core.errors import InvalidError
from isotropy.catalog import MEASURES, METHODS
from isotropy.cloud import PAIR_ROWS
from isotropy.postprocess.held_out import held_out
from isotropy.postprocess.methods import fit
from isotropy.postprocess.whitening import fit_centering
from tests.factories import measurement


def embedding(n=400, d=300, left_out=0, eigenvalues=()):
    measurements = [Measurement(measure="spectrum", detail={"eigenvalues": list(eigenvalues)})] if eigenvalues else []
    return Embedding(n=n, d=d, n_left_out=left_out, measurements=measurements)


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 400, 401])
def test_trial_fits_as_many_rows_as_held_out(n):
    trial = held_out(torch.randn(n, 2), fit_centering)
    assert count_trial_rows(embedding(n)) == (n, len(trial.fit_rows))


def test_trial_draws_rows_of_report_and_defaults_fit_few_rows():
    assert DRAWN_ROWS == PAIR_ROWS
    assert count_trial_rows(embedding(50_000)) == (20_000, 10_000)
    assert count_trial_rows(embedding(100, left_out=20)) == (80, 40)
    assert check_settings(embedding(6, 2), "cluster_based", {}).parameters == {"clusters": 3, "D": 1, "seed": 0}


@pytest.mark.parametrize("d", [2, 63, 64, 99, 100, 768])
@pytest.mark.parametrize("method", ["all_but_the_top", "weighted_removal", "cluster_based"])
def test_default_d_matches_method(method, d):
    x = torch.randn(40, d, generator=torch.Generator().manual_seed(0))
    parameters = {"clusters": 1} if method == "cluster_based" else {}
    D = check_settings(embedding(80, d), method, parameters).parameters["D"]
    usual, same = fit(method, x, **parameters).state(), fit(method, x, D=D, **parameters).state()
    assert torch.equal(usual["directions"], same["directions"])
    assert usual["directions"].shape == same["directions"].shape


def test_numbers_are_normalized_to_parameter_type():
    spec = check_settings(embedding(), "soft_zca", {"eps": 1})
    assert (spec, type(spec.parameters["eps"])) == (check_settings(embedding(), "soft_zca", {"eps": 1.0}), float)
    two = check_settings(embedding(), "all_but_the_top", {"D": 3.0})
    assert (two, type(two.parameters["D"])) == (check_settings(embedding(), "all_but_the_top", {}), int)
    method = METHODS["cluster_based"]
    assert parse_parameters(method, {"D": " 3", "clusters": "", "eps": "x"}) == {"D": 3}
    assert parse_parameters(METHODS["soft_zca"], {"eps": "1e-3"}) == {"eps": 0.001}
    with pytest.raises(InvalidError, match="Enter a number, not 'three'"):
        parse_parameters(method, {"D": "three"})


@pytest.mark.parametrize(
    ("method", "parameters", "field", "sentence"),
    [
        ("nothing", {}, "method", "Expected a method among centring, .*, got 'nothing'"),
        ("soft_zca", {"D": 1}, "parameters", "Expected parameters of Soft ZCA whitening among eps, got 'D'"),
        ("centring", {"D": 1}, "parameters", "among none, got 'D': leave it out"),
        ("soft_zca", {"eps": -1.0}, "eps", "Expected eps as a number from 0 upwards; got -1.0."),
        ("soft_zca", {"eps": float("nan")}, "eps", "got nan"),
        ("soft_zca", {"eps": float("inf")}, "eps", "got inf"),
        ("soft_zca", {"eps": 10**400}, "eps", "Expected eps as a number from 0 upwards; got inf."),
        ("soft_zca", {"eps": -(10**400)}, "eps", "got -inf"),
        ("flow", {"rate": 10**400}, "rate", "got inf"),
        ("all_but_the_top", {"D": 10**400}, "D", "got 1000"),
        ("all_but_the_top", {"D": 301}, "D", "a whole number from 0 to 300: there are 300 dimensions; got 301."),
        ("all_but_the_top", {"D": 1.5}, "D", "got 1.5"),
        ("all_but_the_top", {"D": True}, "D", "got True"),
        ("cluster_based", {"clusters": 201}, "clusters", "from 1 to 200: a method is fitted on 200 rows; got 201."),
        ("flow", {"rate": 2.0}, "rate", "Expected rate as a number from 1e−6 to 1.0; got 2.0."),
    ],
)
def test_invalid_parameter_is_refused_at_its_field(method, parameters, field, sentence):
    with pytest.raises(InvalidError, match=sentence.replace("(", r"\(")) as refused:
        check_settings(embedding(), method, parameters)
    assert refused.value.field == field


def test_method_description_names_changed_parameters():
    assert describe_method("soft_zca", {"eps": 0.1}) == "Soft ZCA whitening, eps 0.1"
    assert describe_method("centring", {}) == "Centering"
    parameters = check_settings(embedding(), "flow", {"rate": 0.01}).parameters
    assert describe_method("flow", parameters) == "Gaussian calibration by a flow, steps 500, rate 0.01"
    assert describe_method("former", {"depth": 2, "seed": None}) == "former, depth 2"
    assert describe_method("soft_zca", {"eps": 0.1, "depth": 2}) == "Soft ZCA whitening, eps 0.1, depth 2"


def inputs(method, embedding, **texts):
    entries = method_settings.list_parameter_inputs(embedding, METHODS[method], texts)
    return {entry.parameter.name: entry for entry in entries}


def test_slider_ranges_follow_embedding():
    slider = inputs("soft_zca", embedding(eigenvalues=[2e-6, 0.5e-6]))["eps"].slider
    assert (slider.low, slider.high, slider.log, slider.value) == (-10, -1, True, -1)
    slider = inputs("soft_zca", embedding(eigenvalues=[2e6, 0.5e6]), eps="1000")["eps"].slider
    assert (slider.low, slider.high, slider.value) == (-1, 9, 3)
    assert inputs("partial_whitening", embedding())["gamma"].slider == (0, 1, 0.05, 0.5, False)
    assert inputs("partial_whitening", embedding(), gamma="0")["gamma"].slider.value == 0
    rate = inputs("flow", embedding())["rate"].slider
    assert (rate.low, rate.high, rate.log, rate.value) == (-6, 0, True, -3)
    assert inputs("all_but_the_top", embedding())["D"].slider[:4] == (0, 50, 1, 3)
    assert inputs("all_but_the_top", embedding(d=8))["D"].slider[:4] == (0, 8, 1, 1)
    assert inputs("cluster_based", embedding(n=60))["clusters"].slider[:4] == (1, 30, 1, 27)
    assert inputs("cluster_based", embedding())["seed"].slider is None
    entry = inputs("all_but_the_top", embedding(), D="three")["D"]
    assert (entry.text, entry.slider.value) == ("three", 3)


def compared(**values):
    """Compare each measure's values before and after."""
    triples = [(slug, measurement(slug, before), measurement(slug, after)) for slug, (before, after) in values.items()]
    return [TrialComparison(MEASURES[slug], before, after, None) for slug, before, after in triples]


def test_outcome_sentence_gives_both_values():
    outcomes = compared(isoscore=(0.59, 0.762), mean_cosine=(0.06, -0.001), partition_log=(-1.46, -17.9))
    assert describe_outcome("Soft ZCA whitening", outcomes) == (
        "On rows that Soft ZCA whitening has not seen, IsoScore rises from 0.590 to 0.762; the mean cosine falls from "
        "0.06 to 0.00; the partition function's logarithm gets worse, from −1.46 to −17.9."
    )
    outcomes = compared(isoscore=(0.5, 0.4), partition_log=(-2.0, -1.0), silhouette=(0.1, 0.25))
    assert describe_outcome("Centering", outcomes) == (
        "On rows that Centering has not seen, IsoScore falls from 0.500 to 0.400; the partition function's logarithm "
        "gets better, from −2.00 to −1.00. The silhouette of the labels rises from 0.100 to 0.250."
    )


def test_change_below_shown_digits_is_reported_as_unchanged():
    assert describe_outcome("Centering", compared(isoscore=(0.5, 0.50001))).endswith("IsoScore stays at 0.500.")
    (outcome,) = compared(mean_share=((0.5, 0.03), 0.4))
    assert (outcome.change.value, outcome.change.se, outcome.change.low) == (pytest.approx(-0.1), None, None)


@pytest.mark.parametrize("values", [(None, 0.5), (0.5, None)])
def test_undefined_values_have_no_sentence(values):
    assert describe_outcome("Centering", compared(isoscore=values)) == ""
