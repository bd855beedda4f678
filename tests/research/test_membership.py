"""Tests of membership attacks: correct values on small cases, no gain by guessing, and intervals
with the right coverage.
"""

import math

import numpy as np
import pytest

from research.leakage.membership import attack, by_perplexity, by_reference, groups, over_seeds


def normal(seed, size, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1, size)


def slow_auc(members, others):
    return np.mean([(m > o) + 0.5 * (m == o) for m in members for o in others])


def test_auc_counts_pairs_and_ties_half():
    members, others = np.array([1.0, 2, 2, 3, 5]), np.array([0.0, 1, 2, 2, 4])
    assert attack(members, others).auc.value == pytest.approx(slow_auc(members, others))


def test_scores_that_part_the_two_are_a_sure_attack():
    found = attack(np.arange(100.0) + 200, np.arange(100.0))
    assert found.auc.value == 1
    assert found.accuracy.value == 1
    assert found.true_positives_at_1_percent.value == 1


def test_a_guess_gets_no_credit():
    # 200 runs with 100 members and 100 others. A threshold is right for 56% of the texts on which
    # it was chosen, and for 50% of other texts. The mean of 200 accuracies has a standard deviation
    # of 0.0026.
    found = [attack(normal(i, 100), normal(1000 + i, 100)) for i in range(200)]
    assert np.mean([f.accuracy.value for f in found]) == pytest.approx(0.5, abs=0.012)
    assert np.mean([f.auc.value for f in found]) == pytest.approx(0.5, abs=0.012)
    assert np.mean([f.true_positives_at_1_percent.value for f in found]) < 0.03


def test_a_guess_gets_no_credit_for_the_larger_side():
    # Over all texts, the guess "always a member" would be right for 91%. In 100 runs on 40 members
    # and 40 others, the mean of the accuracies has a standard deviation of 0.0056.
    found = [attack(normal(i, 400), normal(1000 + i, 40)) for i in range(100)]
    assert np.mean([f.accuracy.value for f in found]) == pytest.approx(0.5, abs=0.025)
    assert all((80 * f.accuracy.value).is_integer() for f in found)


def test_the_interval_of_auc_covers_at_its_rate():
    # For a shift of 1, the true AUC is Phi(1/sqrt 2) = 0.7602. If the coverage is 95%, the
    # probability that fewer than 270 of 300 intervals contain it is below 2e-4. If intervals were
    # half as wide, only about 200 would contain it.
    covered = 0
    for i in range(300):
        auc = attack(normal(i, 150, 1.0), normal(5000 + i, 150)).auc
        covered += auc.lower <= 0.7602 <= auc.upper
    assert covered >= 270


def test_true_positives_are_counted_at_1_percent_of_false_ones():
    others = np.arange(1000.0)
    members = np.array([989.0, 990, 991, 2000])
    found = attack(members, others).true_positives_at_1_percent
    # The threshold is 990, because 9 of the 1000 others are above it.
    assert found.value == 2 / 4
    # The exact 95% interval of 2 of 4: Clopper & Pearson 1934.
    assert (found.lower, found.upper) == pytest.approx((0.0676, 0.9324), abs=1e-4)


def test_a_low_loss_looks_like_a_member_and_a_reference_takes_off_what_is_easy():
    losses = np.array([1.0, 2.0])
    assert by_perplexity(losses)[0] > by_perplexity(losses)[1]
    np.testing.assert_array_equal(by_reference(losses, np.array([0.5, 3.0])), [-0.5, 1.0])


def test_groups_sum_up_a_small_signal():
    members, others = normal(1, 1000, 0.3), normal(2, 1000)
    single = attack(members, others).auc.value
    together = attack(
        groups(members, count=500, size=20, seed=1), groups(others, count=500, size=20, seed=2)
    )
    assert together.auc.value > single + 0.15


def test_groups_that_a_threshold_is_tried_on_share_no_text_with_those_it_was_chosen_on():
    # If the groups shared texts, a guess would have an accuracy of 0.522 +- 0.006, because the
    # threshold would be fitted to random differences.
    found = groups(2.0 ** np.arange(40), count=20, size=5, seed=1)
    chosen, tried = (
        {text for total in side for text in range(40) if int(total) >> text & 1}
        for side in (found[::2], found[1::2])
    )
    assert chosen and tried and not chosen & tried


def test_two_groups_larger_than_the_corpus_are_refused():
    with pytest.raises(ValueError, match="need more than"):
        groups(np.zeros(11), count=2, size=6, seed=1)


@pytest.mark.parametrize("scores", [np.array([1.0, 2, 3]), np.array([1.0, 2, 3, math.nan])])
def test_too_few_scores_and_scores_that_are_none_are_refused(scores):
    with pytest.raises(ValueError, match=r"four|finite"):
        attack(scores, np.arange(4.0))


def test_the_interval_over_seeds():
    found = over_seeds([0.4, 0.5, 0.6])
    assert found.value == pytest.approx(0.5)
    assert found.upper - found.value == pytest.approx(4.3027 * 0.1 / math.sqrt(3), abs=1e-4)
    assert over_seeds([0.5]).upper == math.inf
