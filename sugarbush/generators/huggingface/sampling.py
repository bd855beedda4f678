"""One token for each row of scores, from one public uniform per row.

transformers samples a whole batch from one stream, so a text would depend on its batch. Here a
row's token depends only on its scores and its own uniform.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The nucleus is searched among this many tokens before all are sorted.
_LIKELIEST = 512


def pick_tokens(scores: Tensor, uniforms: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """One token per row, drawn from softmax(scores / temperature) within its nucleus.

    The nucleus is the smallest set of most likely tokens with a probability of at least `top_p`
    (Holtzman et al. 2020). A token is drawn by inverting the distribution function of the nucleus.
    Shapes: `scores` (b, v) float, `uniforms` (b,) in [0, 1); result (b,) int64.
    """
    probabilities = torch.softmax(scores.float() / temperature, dim=-1)
    if top_p >= 1:
        return _invert(probabilities, uniforms)
    likeliest, tokens = probabilities.topk(min(_LIKELIEST, probabilities.shape[-1]), dim=-1)
    if bool((likeliest.sum(dim=-1) < top_p).any()):
        likeliest, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
    before = likeliest.cumsum(dim=-1) - likeliest
    size = (before < top_p).sum(dim=-1)
    place = _invert(likeliest * (before < top_p), uniforms).minimum(size - 1)
    return tokens.gather(-1, place[:, None])[:, 0]


def _invert(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Indices (b,) with probability in proportion to `weights` (b, v), never one with weight 0."""
    sums = weights.cumsum(dim=-1)
    whole = sums[:, -1]
    # Rounding may move a mark to the whole sum, beyond the last index with a weight.
    marks = torch.minimum(uniforms.to(whole) * whole, whole.nextafter(torch.zeros_like(whole)))
    return (sums <= marks[:, None]).sum(dim=-1)
