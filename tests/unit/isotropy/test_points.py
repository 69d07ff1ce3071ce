import pytest
import torch

from isotropy.points import union_of_layers

# Embedding layer and two layers: 2 sentences of 3 tokens in 2 dimensions; the first tells where it is from.
HIDDEN_STATES = tuple(
    torch.tensor([[[100.0 * layer + 10 * row + token, -1.0] for token in range(3)] for row in range(2)])
    for layer in range(3)
)
MASK = torch.tensor([[1, 1, 0], [1, 0, 0]])


def test_all_layers_but_the_embedding_layer_are_joined_without_padding():
    points = union_of_layers(HIDDEN_STATES, MASK)
    assert points[:, 0].tolist() == [100, 101, 110, 200, 201, 210]
    assert points.shape == (6, 2)


def test_chosen_layers_are_numbered_from_one():
    assert union_of_layers(HIDDEN_STATES, MASK, layers=[2])[:, 0].tolist() == [200, 201, 210]


def test_padding_can_be_kept_as_in_the_reference_code():
    points = union_of_layers(HIDDEN_STATES, MASK, layers=[1], include_padding=True)
    assert points[:, 0].tolist() == [100, 101, 102, 110, 111, 112]


def test_only_the_tokens_taken_get_a_gradient():
    states = tuple(state.clone().requires_grad_() for state in HIDDEN_STATES)
    union_of_layers(states, MASK, layers=[1]).sum().backward()
    assert states[1].grad[..., 0].tolist() == MASK.tolist()
    assert states[2].grad is None


def test_a_batch_of_padding_alone_gives_no_points():
    assert union_of_layers(HIDDEN_STATES, torch.zeros(2, 3)).shape == (0, 2)


@pytest.mark.parametrize("layers", [[0], [3], [-1], [1, 4], []])
def test_a_layer_that_the_model_does_not_have_is_refused(layers):
    with pytest.raises(ValueError, match=r"Expected layers from 1 to 2 .*, got \[.*\]: choose among the layers"):
        union_of_layers(HIDDEN_STATES, MASK, layers=layers)


def test_a_model_that_returned_no_layers_is_refused():
    with pytest.raises(ValueError, match=r"Expected layers from 1 to 0 .*, got \[\].*output_hidden_states=True"):
        union_of_layers(HIDDEN_STATES[:1], MASK)


def test_the_mask_of_another_batch_is_refused():
    with pytest.raises(ValueError, match=r"Expected an attention mask \[2, 3\] like the hidden states, got \[2, 4\]"):
        union_of_layers(HIDDEN_STATES, torch.ones(2, 4))
