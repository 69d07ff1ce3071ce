import pytest
import torch

from isotropy.points import draw_tokens, union_of_layers

# Embedding layer and two layers: 2 sentences of 3 tokens in 2 dimensions; the first encodes the position.
HIDDEN_STATES = tuple(
    torch.tensor([[[100.0 * layer + 10 * row + token, -1.0] for token in range(3)] for row in range(2)])
    for layer in range(3)
)
MASK = torch.tensor([[1, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("mask", "options", "numbers"),
    [
        (MASK, {}, [100, 101, 110, 200, 201, 210]),
        (MASK, {"layers": [2]}, [200, 201, 210]),
        (MASK, {"layers": [1], "include_padding": True}, [100, 101, 102, 110, 111, 112]),
        (torch.zeros(2, 3), {}, []),
    ],
    ids=["without embeddings", "selected layer", "with padding", "only padding"],
)
def test_layers_are_joined_without_padding(mask, options, numbers):
    points = union_of_layers(HIDDEN_STATES, mask, **options)
    assert (points[:, 0].tolist(), points.shape) == (numbers, (len(numbers), 2))


def test_only_selected_tokens_get_a_gradient():
    states = tuple(state.clone().requires_grad_() for state in HIDDEN_STATES)
    union_of_layers(states, MASK, layers=[1]).sum().backward()
    assert states[1].grad[..., 0].tolist() == MASK.tolist()
    assert states[2].grad is None


@pytest.mark.parametrize("layers", [[0], [3], [-1], [1, 4], []])
def test_unknown_layer_is_refused(layers):
    with pytest.raises(ValueError, match=r"Expected layers from 1 to 2 .*, got \[.*\]: choose among the layers"):
        union_of_layers(HIDDEN_STATES, MASK, layers=layers)


def test_missing_layers_and_mismatched_mask_are_refused():
    with pytest.raises(ValueError, match=r"Expected layers from 1 to 0 .*, got \[\].*output_hidden_states=True"):
        union_of_layers(HIDDEN_STATES[:1], MASK)
    with pytest.raises(ValueError, match=r"Expected an attention mask \[2, 3\] like the hidden states, got \[2, 4\]"):
        union_of_layers(HIDDEN_STATES, torch.ones(2, 4))


def drawn(mask, fraction, seed=0):
    return draw_tokens(mask, fraction, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("fraction", "tokens"), [(1.0, 30), (0.5, 15), (0.25, 8), (0.01, 1)])
def test_fraction_of_tokens_is_drawn_without_padding(fraction, tokens):
    mask = torch.ones(5, 8, dtype=torch.long)
    mask[:, 6:] = 0
    token_mask = drawn(mask, fraction)
    assert token_mask.shape == mask.shape
    assert int(token_mask.sum()) == tokens
    assert not token_mask[:, 6:].any()


def test_tokens_are_drawn_uniformly_by_seed():
    mask = torch.ones(4, 5, dtype=torch.bool)
    assert torch.equal(drawn(mask, 0.5), drawn(mask, 0.5))
    assert not torch.equal(drawn(mask, 0.5), drawn(mask, 0.5, seed=1))
    frequencies = sum(drawn(mask, 0.25, seed).float() for seed in range(2000)) / 2000
    assert frequencies.flatten().tolist() == pytest.approx([0.25] * 20, abs=0.05)
    points = union_of_layers(HIDDEN_STATES, drawn(MASK, 0.5))[:, 0]
    assert len(points) == 4
    assert points[2:].tolist() == (points[:2] + 100).tolist()
    assert not drawn(torch.zeros(2, 3), 0.5).any()


@pytest.mark.parametrize("fraction", [0, -0.5, 1.5, float("nan")])
def test_invalid_fraction_is_refused(fraction):
    with pytest.raises(ValueError, match=f"Expected a fraction of tokens above 0 and at most 1, got {fraction}: 1 ta"):
        drawn(MASK, fraction)
