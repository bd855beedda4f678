"""Tests that a zero-shot code depends on its own record alone, bit for bit, for any vectors."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.attributes.zero_shot import ZeroShotReader, similarities_of
from sugarbush.randomness import public_rng

DIM = 384


def near_ties(seed, n, k):
    """Return unit vectors that are equally far from all k centres, up to float64 rounding."""
    rng = public_rng(seed, "centres")
    centres = rng.standard_normal((k, DIM))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = centres.sum(axis=0) + 0.3 * rng.standard_normal((n, DIM))
    system = centres[1:] - centres[0]
    vectors -= vectors @ np.linalg.pinv(system) @ system  # equal cosines with all centres
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)), centres


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 70),
    k=st.integers(2, 9),
    single=st.booleans(),
)
def test_a_code_depends_only_on_its_own_record(seed, n, k, single):
    vectors, centres = near_ties(seed, n, k)
    if single:
        vectors = vectors.astype(np.float32)
    reader = ZeroShotReader(centres=centres, offsets=())
    threshold = float(similarities_of(vectors[:1], centres).max())  # a tie with `other`
    together = reader.read(vectors, abstain=threshold)
    cosines = similarities_of(vectors, centres)
    for keep in (slice(0, 1), slice(n // 2, n), slice(None, None, -1), slice(0, n, 2)):
        assert np.array_equal(similarities_of(vectors[keep], centres), cosines[keep])
        assert np.array_equal(reader.read(vectors[keep], abstain=threshold), together[keep])


def test_a_matrix_product_does_not_have_this_property():
    """The last bits of a matrix product depend on the number of rows, so the test above would fail
    for codes from a matrix product.
    """
    vectors, centres = near_ties(1, 64, 9)
    alone = np.concatenate([row[None] @ centres.T for row in vectors])
    assert not np.array_equal(vectors @ centres.T, alone)


def test_blocks_change_nothing():
    vectors, centres = near_ties(1, 2500, 4)
    some = [0, 1023, 1024, 2499]
    assert np.array_equal(
        similarities_of(vectors, centres)[some], similarities_of(vectors[some], centres)
    )
