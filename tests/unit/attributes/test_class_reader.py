"""Tests that released texts refine a reader that noisy sums teach, as far as the sums say much."""

from unittest import mock

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes import class_reader
from sugarbush.attributes.class_reader import ClassReader
from sugarbush.embedding.class_sums import ClassSums, directions

DIM = 64
SIZES = (600, 300, 100)


def texts_of(sizes: tuple[int, ...], seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return unit vectors around one mean per value, and their values."""
    means = np.random.default_rng(0).normal(size=(len(sizes), DIM)) * 1.5
    codes = np.repeat(np.arange(len(sizes)), sizes)
    vectors = means[codes] + np.random.default_rng(seed).normal(size=(len(codes), DIM)) + 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32), codes


def sums_of(stddev: float) -> ClassSums:
    records, codes = texts_of(SIZES, seed=1)
    centre = texts_of(SIZES, seed=2)[0].mean(axis=0, dtype=np.float64)
    vectors = directions(records, centre)
    sums = np.stack([vectors[codes == value].sum(axis=0) for value in range(len(SIZES))])
    noise = np.random.default_rng(3).normal(0, stddev, sums.shape)
    return ClassSums(sums=sums + noise, stddev=stddev, centre=centre, classes=((0, len(SIZES)),))


def reader(stddev: float, *, other: float = 0.0, most_texts: float = 200.0) -> ClassReader:
    counts = np.array([*SIZES, other], dtype=np.float64)
    with mock.patch.object(class_reader, "_MOST_TEXTS", most_texts):
        found = ClassReader.of(sums_of(stddev), 0, counts=counts, public=texts_of(SIZES, seed=2)[0])
    assert found is not None
    return found


def right(by: ClassReader) -> float:
    texts, codes = texts_of((200, 200, 200), seed=4)
    return float(np.mean(by.log_likelihoods(texts)[:, :-1].argmax(axis=1) == codes))


def test_released_texts_refine_noisy_means() -> None:
    without = right(reader(40.0, most_texts=0.0))
    assert right(reader(40.0)) > without + 0.05


def test_without_noise_the_texts_change_little() -> None:
    exact, refined = reader(0.0, most_texts=0.0), reader(0.0)
    assert right(refined) >= right(exact) - 0.01


def test_sums_that_say_nothing_get_no_values_from_the_texts() -> None:
    """Texts have clusters of their own, and without a sum nothing names them."""
    alone, refined = reader(1e5, most_texts=0.0), reader(1e5)
    assert np.abs(refined.means - alone.means).max() < 1e-3


def test_texts_weigh_less_if_most_records_have_no_listed_value() -> None:
    alone, all_listed = reader(40.0, most_texts=0.0), reader(40.0)
    few_listed = reader(40.0, other=9_000.0)
    moved = [np.linalg.norm(by.means - alone.means) for by in (few_listed, all_listed)]
    assert moved[0] < moved[1] / 2


def test_a_sum_that_is_mostly_noise_moves_no_mean() -> None:
    """Exact sums give every value its own mean. Noise of 10^5 draws all means to one."""

    def apart(stddev: float) -> float:
        means = reader(stddev, most_texts=0.0).means
        return float(np.linalg.norm(means - means.mean(axis=0), axis=1).max())

    assert apart(0.0) > 0.3
    assert apart(1e5) < 1e-3 * apart(0.0)
    assert apart(40.0) < apart(0.0)
