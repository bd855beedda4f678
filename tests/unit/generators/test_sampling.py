import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from transformers.cache_utils import DynamicLayer

from sugarbush.generators.huggingface import batch as sampling
from sugarbush.generators.huggingface.batch import SpareRoomLayer, pick_tokens

WEIGHTS = torch.tensor([0.05, 0.4, 0.0, 0.25, 0.3])


def spread(count: int) -> torch.Tensor:
    """Return evenly spaced numbers in place of uniform draws.

    With them, the shares of sampled tokens equal the probabilities of the tokens.
    """
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


def shares_of(
    scores: torch.Tensor, *, temperature: float = 1.0, top_p: float = 1.0, draws: int = 20_000
) -> np.ndarray:
    uniforms = spread(draws)
    tokens = pick_tokens(
        scores.expand(len(uniforms), -1), uniforms, temperature=temperature, top_p=top_p
    )
    return np.bincount(tokens.numpy(), minlength=scores.shape[-1]) / len(uniforms)


def test_tokens_come_in_proportion_to_their_probabilities() -> None:
    assert shares_of(WEIGHTS.log()) == pytest.approx(WEIGHTS.numpy(), abs=1e-3)


def test_a_low_temperature_sharpens_and_a_high_one_flattens() -> None:
    squared = (WEIGHTS**2 / (WEIGHTS**2).sum()).numpy()
    assert shares_of(WEIGHTS.log(), temperature=0.5) == pytest.approx(squared, abs=1e-3)
    root = (WEIGHTS**0.5 / (WEIGHTS**0.5).sum()).numpy()
    assert shares_of(WEIGHTS.log(), temperature=2.0) == pytest.approx(root, abs=1e-3)


def test_the_nucleus_is_the_fewest_likeliest_tokens_that_reach_top_p() -> None:
    # The nucleus has two tokens, because 0.4 < 0.6 <= 0.4 + 0.3.
    shares = shares_of(WEIGHTS.log(), top_p=0.6)
    assert shares == pytest.approx([0, 0.4 / 0.7, 0, 0, 0.3 / 0.7], abs=1e-3)


def test_the_likeliest_token_is_left_by_any_top_p() -> None:
    assert shares_of(WEIGHTS.log(), top_p=1e-6).tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("top_p", [0.6, 0.95, 1.0])
@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_never_draw_an_impossible_token(
    top_p: float, uniform: float
) -> None:
    scores = torch.full((1, 5000), -torch.inf)
    scores[0, 100:3000] = 0.0
    uniforms = torch.tensor([uniform], dtype=torch.float64)
    token = int(pick_tokens(scores, uniforms, temperature=1.0, top_p=top_p))
    assert 100 <= token < 3000


def test_a_flat_nucleus_of_thousands_of_tokens_is_found_whole() -> None:
    scores = torch.zeros(1000)
    # Each of the first 800 tokens has e^5 times the weight of another token, so the 800 together
    # have probability 0.998.
    scores[:800] = 5.0
    shares = shares_of(scores, top_p=0.9, draws=4000)
    assert (shares[800:] == 0).all()
    assert np.count_nonzero(shares) == pytest.approx(0.9 * 800 / 0.998, rel=0.01)


@settings(max_examples=50)
@given(
    scores=nps.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 40)),
        # The scores differ so much that no two probabilities are equal. The order of tokens with
        # equal probabilities is not defined.
        elements=st.integers(-512, 512).map(lambda n: n / 128),
        unique=True,
    ),
    uniform=st.floats(0, 1, exclude_max=True),
    top_p=st.floats(0.05, 1),
)
def test_a_row_gets_what_the_slow_obvious_way_gives_it(
    scores: np.ndarray, uniform: float, top_p: float
) -> None:
    tokens = pick_tokens(
        torch.from_numpy(scores),
        torch.full((len(scores),), uniform, dtype=torch.float64),
        temperature=1.0,
        top_p=top_p,
    )
    for row, token in zip(scores.astype(np.float64), tokens.tolist(), strict=True):
        weights = np.exp(row) / np.exp(row).sum()
        order = np.arange(len(row)) if top_p >= 1 else np.argsort(-weights)
        nucleus, mass = [], 0.0
        for place in order:
            nucleus.append(place)
            mass += weights[place]
            if mass >= top_p - 1e-6 and top_p < 1:
                break
        assert token in nucleus or mass - weights[nucleus[-1]] < top_p + 1e-6
        ends = np.cumsum(weights[nucleus]) / weights[nucleus].sum()
        if token in nucleus:  # the token's part of the unit interval contains the uniform number
            place = nucleus.index(token)
            low = ends[place - 1] if place else 0.0
            assert low - 1e-4 <= uniform <= ends[place] + 1e-4


def test_both_ways_to_the_nucleus_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.linspace(-6, 6, 3000).flip(0).expand(500, -1)
    quick = pick_tokens(scores, spread(500), temperature=0.7, top_p=0.5)
    monkeypatch.setattr(sampling, "_LIKELIEST", 3000)
    assert torch.equal(quick, pick_tokens(scores, spread(500), temperature=0.7, top_p=0.5))


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    scores, uniforms = torch.sin(torch.arange(15000.0)).view(5, 3000), spread(5)
    scores *= torch.tensor([0.0, 40.0, 1.0, 40.0, 3.0])[:, None]  # two nuclei are small
    together = pick_tokens(scores, uniforms, temperature=1.0, top_p=0.9)
    for row in range(5):
        alone = pick_tokens(
            scores[row : row + 1], uniforms[row : row + 1], temperature=1.0, top_p=0.9
        )
        assert int(alone) == int(together[row])


@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    chosen=st.lists(st.sets(st.integers(0, 3), min_size=1) | st.none(), min_size=8, max_size=8),
)
def test_spare_room_holds_the_states_that_transformers_cache_holds(
    lengths: list[int], chosen: list[set[int] | None]
) -> None:
    ours, theirs, rows = SpareRoomLayer(), DynamicLayer(), 4
    for length, choice in zip(lengths, chosen, strict=False):
        keys, values = torch.rand(2, rows, 3, length, 5)
        for mine, other in zip(
            ours.update(keys, values), theirs.update(keys.clone(), values.clone()), strict=True
        ):
            assert torch.equal(mine, other)
        if choice:
            kept = torch.tensor(sorted(row for row in choice if row < rows) or [0])
            ours.batch_select_indices(kept)
            theirs.batch_select_indices(kept)
            rows = len(kept)
    assert ours.get_seq_length() == theirs.get_seq_length() == sum(lengths[:8])
