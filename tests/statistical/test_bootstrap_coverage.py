import numpy as np
from scipy.stats import binom

from sugarbush.evaluation.bootstrap import mean_interval, normal_interval
from sugarbush.evaluation.mauve import mauve_of_histograms
from sugarbush.randomness import public_rng


def test_a_mean_interval_covers_at_its_rate() -> None:
    """Uses 300 samples of 60 numbers. If the true coverage is 93%, a false alarm has probability
    under 1e-6."""
    rng = public_rng(1, "coverage")
    covered = 0
    for trial in range(300):
        found = mean_interval(
            rng.normal(size=60), resamples=200, rng=public_rng(trial, "resamples")
        )
        assert found.low is not None and found.high is not None
        covered += found.low <= 0 <= found.high
    low, high = binom.ppf([5e-7, 1 - 5e-7], 300, 0.93)
    assert low <= covered <= min(high, 298)


def test_a_normal_interval_reaches_1_96_standard_errors() -> None:
    """The standard error of a mean is known. The bootstrap estimate from 4,000 resamples has a
    relative standard deviation of 1.1%, so a false alarm has probability under 1e-6 (5.4 standard
    deviations)."""
    values = public_rng(3, "coverage").normal(size=500)
    found = normal_interval(
        lambda i: float(values[i].mean()), sizes=(500,), resamples=4000, rng=public_rng(4, "r")
    )
    assert found.low is not None and found.high is not None
    error = values.std() / np.sqrt(500)
    assert abs((found.high - found.value) / error / 1.959964 - 1) < 0.06
    assert abs((found.value - found.low) / error / 1.959964 - 1) < 0.06


def test_an_interval_of_mauve_covers_its_mean_over_samples() -> None:
    """Uses 150 pairs of samples of 400 texts in 20 clusters. If the true coverage is 93%, a false
    alarm has probability under 1e-4."""
    p = np.full(20, 1 / 20)
    q = np.linspace(1, 3, 20) / np.linspace(1, 3, 20).sum()
    rng = public_rng(2, "coverage")
    pairs = [(rng.choice(20, 400, p=p), rng.choice(20, 400, p=q)) for _ in range(150)]

    def mauve(a: np.ndarray, b: np.ndarray) -> float:
        return mauve_of_histograms(np.bincount(a, minlength=20), np.bincount(b, minlength=20))

    centre = np.mean([mauve(a, b) for a, b in pairs])
    covered = 0
    for trial, (a, b) in enumerate(pairs):
        found = normal_interval(
            lambda i, j, a=a, b=b: mauve(a[i], b[j]),
            sizes=(400, 400),
            resamples=60,
            rng=public_rng(trial, "resamples"),
        )
        assert found.low is not None and found.high is not None
        covered += found.low <= centre <= found.high
    assert covered >= binom.ppf(1e-4, 150, 0.93)
