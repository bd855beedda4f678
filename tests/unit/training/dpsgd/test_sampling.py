"""Tests of schedules from public numbers, of secret samples, and of micro-batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.errors import ParamsError
from sugarbush.privacy.data_types import Private
from sugarbush.training.dpsgd.sampling import PoissonSampler, make_schedule, micro_batches


def test_the_schedule_of_the_yelp_paper():
    schedule = make_schedule(batch_size=4096, epochs=50, unit_count=1.9e6)
    assert schedule.rate == pytest.approx(4096 / 1.9e6)
    assert schedule.steps == 23193
    assert schedule.expected_batch_size == pytest.approx(4096)


def test_with_fewer_units_than_a_batch_everyone_is_in_every_step():
    schedule = make_schedule(batch_size=100, epochs=3, unit_count=40.5)
    assert (schedule.rate, schedule.steps, schedule.expected_batch_size) == (1.0, 3, 40.5)


@pytest.mark.parametrize("unit_count", [0.9, -12.0, float("nan")])
def test_a_dp_count_of_zero_is_an_error_that_names_the_setting(unit_count):
    with pytest.raises(ParamsError, match=r"methods\.dpft\.records"):
        make_schedule(batch_size=100, epochs=3, unit_count=unit_count)


def test_a_unit_adds_at_most_one_example_to_a_step_whatever_it_holds():
    """The test takes 200 samples at rate 0.5. The 60 units have 1, 5 or no examples. An example is
    in none of the samples with probability 7e-8."""
    units = [tuple((unit, i) for i in range((1, 5, 0)[unit % 3])) for unit in range(60)]
    sampler = PoissonSampler(Private(units), rate=0.5)
    seen = set()
    for _ in range(200):
        batch = sampler.draw()
        drawn = [unit for unit, _ in batch]
        assert len(set(drawn)) == len(drawn)
        seen.update(batch)
    assert seen == {example for unit in units for example in unit}


def test_processes_share_the_units_out_without_overlap_or_loss():
    units = Private([(i,) for i in range(11)])
    parts = [PoissonSampler(units, rate=1.0, rank=r, world_size=3).draw() for r in range(3)]
    assert sorted(unit for part in parts for unit in part) == list(range(11))


@given(sizes=st.lists(st.integers(0, 40)), capacity=st.integers(1, 100))
def test_micro_batches_hold_every_example_once_and_fit(sizes, capacity):
    batch = list(enumerate(sizes))
    parts = list(micro_batches(batch, size_of=lambda example: example[1], capacity=capacity))
    assert sorted(example for part in parts for example in part) == batch
    for part in parts:
        assert part
        assert len(part) == 1 or len(part) * max(size for _, size in part) <= capacity
