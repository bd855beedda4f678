"""Tests that tensor noise and Poisson samples have the right distribution and depend on no seed.

Each test states its sample size and its false-alarm rate.
"""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from sugarbush.errors import InvariantError
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.noise import add_gaussian, poisson_sample, secret_choice
from sugarbush.training.dpsgd.sampling import PoissonSampler

N = 200_000


def drawn(stddev: float, *, dtype: torch.dtype = torch.float32) -> np.ndarray:
    tensors = [torch.full((N // 4, 2), 3.0, dtype=dtype), torch.full((N // 2,), 3.0, dtype=dtype)]
    add_gaussian(tensors, stddev=stddev)
    return torch.cat([t.flatten() for t in tensors]).double().numpy() - 3.0


def z_of_variance(noise: np.ndarray, stddev: float) -> float:
    return (np.mean(noise**2) / stddev**2 - 1) * math.sqrt(len(noise) / 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensor_noise_has_the_requested_scale(dtype: torch.dtype) -> None:
    """n = 200,000, limit |z| < 5, false-alarm rate 6e-7. A scale that is wrong by 3% gives |z| >
    18."""
    noise = drawn(0.7, dtype=dtype)
    assert abs(z_of_variance(noise, 0.7)) < 5
    assert abs(noise.mean()) < 5 * 0.7 / math.sqrt(N)
    for wrong in (0.97, 1.03):
        assert abs(z_of_variance(noise, wrong * 0.7)) > 5


def test_tensor_noise_is_gaussian_across_blocks_and_tensors() -> None:
    """Kolmogorov-Smirnov test, n = 1,300,000 (more than one block), false-alarm rate 1e-6."""
    tensor = torch.zeros(1_300_000)
    add_gaussian([tensor], stddev=1.0)
    assert kstest(tensor.numpy(), "norm").pvalue > 1e-6
    # Almost all numbers are different, so no block repeats another block.
    assert len(torch.unique(tensor.double() * 1e7)) > 1_200_000


def test_no_seed_reaches_tensor_noise() -> None:
    """Two draws of 1,000 numbers are equal by chance with probability under 1e-1000."""
    draws = []
    for _ in range(2):
        torch.manual_seed(1)
        np.random.seed(1)
        tensor = torch.zeros(1000)
        add_gaussian([tensor], stddev=1.0)
        draws.append(tensor)
    assert int((draws[0] == draws[1]).sum()) < 10


def test_tensors_of_one_call_get_noise_of_their_own() -> None:
    """n = 10,000, limit 5/sqrt(n) for the correlation, false-alarm rate 6e-7."""
    one, other = torch.zeros(10_000), torch.zeros(10_000)
    add_gaussian([one, other], stddev=1.0)
    assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.05


@pytest.mark.parametrize("stddev", [0.0, -1.0, math.nan, math.inf])
def test_an_invalid_scale_is_refused(stddev: float) -> None:
    with pytest.raises(InvariantError, match="stddev"):
        add_gaussian([torch.zeros(3)], stddev=stddev)


@pytest.mark.parametrize(
    "tensor", [torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3, 4).t()], ids=["bf16", "view"]
)
def test_a_tensor_that_would_not_get_its_noise_is_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(InvariantError, match="contiguous float32"):
        add_gaussian([tensor], stddev=1.0)


@pytest.mark.parametrize("rate", [0.003, 0.2, 0.9])
def test_each_unit_is_sampled_at_the_given_rate(rate: float) -> None:
    """n = 1,200,000 in two blocks, limit |z| < 5, false-alarm rate 6e-7. A rate that is wrong by
    20% gives |z| = 12."""
    size = 1_200_000
    sample = poisson_sample(size, rate=rate)
    assert bool((np.diff(sample) > 0).all())
    assert sample[0] >= 0
    assert sample[-1] < size
    stddev = math.sqrt(size * rate * (1 - rate))
    assert abs(len(sample) - size * rate) < 5 * stddev
    # A rate that is wrong by 20% would be more than ten standard deviations away.
    assert 0.2 * size * rate > 10 * stddev
    halves = np.bincount(sample // (size // 2), minlength=2)
    assert abs(halves[0] - halves[1]) < 5 * stddev


def test_units_are_sampled_independently() -> None:
    """Sample 50 units at rate 0.1, 4,000 times: the sample sizes vary binomially.

    Limit |z| < 5.2, false-alarm rate 8e-7.

    If samples had a fixed size, or were batches of a shuffled epoch, their sizes would not vary.
    """
    sizes = np.array([len(poisson_sample(50, rate=0.1)) for _ in range(4000)])
    variance = 50 * 0.1 * 0.9
    assert abs(sizes.var() / variance - 1) * math.sqrt(len(sizes) / 2) < 5.2
    assert (sizes == 0).any()  # in 4,000 samples, about 20 empty samples are expected


def test_a_person_is_drawn_at_the_rate_however_many_records_they_have() -> None:
    """400 users have 1 record, and 400 users have 5. There are 500 steps at rate 0.05.

    The test limits seven values to |z| < 5.3, with a false-alarm rate of 8e-7.

    If records were sampled in place of users, users with 5 records would be in 1 - 0.95^5 = 23% of
    the steps, which gives |z| > 300. Each of the five records of a user must be used in a fifth of
    the steps that sample the user. If only the first record were used, |z| would be above 180.
    """
    owners = [*range(400), *(400 + i // 5 for i in range(2000))]
    records = Private([(place,) for place in range(2400)])
    sampler = PoissonSampler(records.joined_by(Private(owners)), rate=0.05)
    several, which = [0, 0], np.zeros(5)
    for _ in range(500):
        batch = sampler.draw()
        assert len({owners[place] for place in batch}) == len(batch)
        for place in batch:
            several[place >= 400] += 1
            which[place % 5] += place >= 400
    steps, stddev = 400 * 500 * 0.05, math.sqrt(400 * 500 * 0.05 * 0.95)
    assert all(abs(drawn - steps) < 5.3 * stddev for drawn in several)
    share = several[1] / 5
    assert (np.abs(which - share) < 5.3 * math.sqrt(share * 0.8)).all()


def test_rate_one_samples_everybody_and_no_unit_gives_an_empty_sample() -> None:
    assert poisson_sample(5, rate=1.0).tolist() == [0, 1, 2, 3, 4]
    assert poisson_sample(0, rate=0.5).tolist() == []


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_an_invalid_rate_is_refused(rate: float) -> None:
    with pytest.raises(InvariantError, match="rate"):
        poisson_sample(5, rate=rate)


def test_no_seed_reaches_the_sample() -> None:
    """Two samples of 1,000 units at rate one half are equal by chance with probability 2^-1000."""
    samples = []
    for _ in range(2):
        torch.manual_seed(1)
        np.random.seed(1)
        samples.append(poisson_sample(1000, rate=0.5).tolist())
    assert samples[0] != samples[1]


def test_the_secret_choice_is_uniform() -> None:
    """3,000 choices among 3: each count is within 5.4 standard deviations (of 25.8 each) of 1,000.

    The false-alarm rate is 2e-7.
    """
    counts = np.bincount([secret_choice(3) for _ in range(3000)], minlength=3)
    assert (abs(counts - 1000) < 140).all()
