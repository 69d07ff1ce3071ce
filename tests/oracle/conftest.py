import IsoScore.IsoScore
import numpy as np
import pytest
import torch


@pytest.fixture(scope="session")
def word2vec(bench_data):
    with np.load(bench_data / "embeddings" / "word2vec_googlenews_300d_8k.npz") as archive:
        return torch.from_numpy(archive["vectors"])


@pytest.fixture
def exact_package():
    """The package takes square roots in the default dtype; float64 avoids an error of 6e-8."""
    torch.set_default_dtype(torch.float64)
    yield IsoScore.IsoScore
    torch.set_default_dtype(torch.float32)
