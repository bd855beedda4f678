"""What arms are measured with."""

from sugarbush.metrics.mauve import mauve
from sugarbush.randomness import public_rng
from tasks.evaluate import clusters_for


def test_clusters_are_a_tenth_of_the_smaller_side_and_at_least_two() -> None:
    assert clusters_for(200, 1000) == 20
    assert clusters_for(1000, 200) == 20
    assert clusters_for(3, 1000) == 2


def test_few_heldout_texts_do_not_make_texts_of_their_own_kind_look_strange() -> None:
    """A tenth of the arm would be a cluster a held-out text, most of which hold no other."""
    rows = public_rng(1, "rows").normal(size=(660, 8))
    heldout, arm = rows[:60], rows[60:]
    assert mauve(heldout, arm, clusters=clusters_for(len(arm), len(heldout)), seed=1) > 0.9
    assert mauve(heldout, arm, clusters=60, seed=1) < 0.7
