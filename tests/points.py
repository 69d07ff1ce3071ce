import numpy as np
import torch

from isotropy.spectrum import Moments
from isotropy.unbiased import FourthMoments


def random(seed=0):
    return np.random.default_rng(seed)


def randn(n, d, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def moments_of(x, kind=Moments):
    moments = kind(x.shape[1])
    moments.update(x)
    return moments


def fourth_moments_of(x):
    return moments_of(x, FourthMoments)
