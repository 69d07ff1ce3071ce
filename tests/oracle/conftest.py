import os
from pathlib import Path

import numpy as np
import pytest
import torch


@pytest.fixture(scope="session")
def bench_data():
    folder = os.environ.get("ISOSCOPE_BENCH_DATA")
    if folder is None:
        pytest.skip("ISOSCOPE_BENCH_DATA is not set: no reference data to compare on")
    return Path(folder)


@pytest.fixture(scope="session")
def word2vec(bench_data):
    with np.load(bench_data / "embeddings" / "word2vec_googlenews_300d_8k.npz") as archive:
        return torch.from_numpy(archive["vectors"])
