"""The gradients of one parameter, one per record, in the smallest form.

A gradient is a sum of three forms: whole gradients, products of two factors, and products with
one-hot token ids. Norms come from inner products between the forms, including cross terms, and no
product is larger than its factors. Products are accumulated in float32 or wider.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sugarbush.errors import InvariantError

# The largest relative error of one rounding to the type; 0 if it counts as exact. Float16 is not in
# the list, because it also underflows.
_ROUNDING = {torch.float32: 0.0, torch.float64: 0.0, torch.bfloat16: 2.0**-8}


@dataclass(frozen=True)
class Whole:
    """Gradients in full, (records, *shape of the parameter)."""

    gradients: Tensor


@dataclass(frozen=True)
class Factors:
    """G_i = left_i^T right_i: (records, positions, rows) and (records, positions, columns)."""

    left: Tensor
    right: Tensor

    @property
    def larger_than_product(self) -> bool:
        """Whether the factors are larger than their product."""
        positions, rows, columns = *self.left.shape[1:], self.right.shape[2]
        return bool(positions * (rows + columns) >= rows * columns)


@dataclass(frozen=True)
class Tokens:
    """G_i = onehot(ids_i)^T right_i: (records, positions) and (records, positions, columns)."""

    ids: Tensor
    right: Tensor


Use = Whole | Factors | Tokens


class RecordGradients:
    """The sum of all uses of one parameter, for each record."""

    def __init__(self, *, records: int, device: torch.device) -> None:
        self._none = torch.zeros(records, dtype=torch.float64, device=device)
        self._whole: list[Whole] = []
        self._factors: list[Factors] = []
        self._tokens: list[Tokens] = []

    def add(self, use: Use) -> None:
        """Add one more use of the parameter."""
        match use:
            case Factors() if use.larger_than_product:
                self.add(Whole(_product(use.left.transpose(1, 2), use.right)))
            case Factors():
                self._factors.append(use)
            case Tokens():
                self._tokens.append(use)
            case Whole() if self._whole:
                self._whole = [Whole(self._whole[0].gradients + use.gradients)]
            case Whole():
                self._whole = [use]

    def squared_norms(self) -> Tensor:
        """|G_i|^2, (records,) float64."""
        forms, total = self._forms(), self._none
        for place, form in enumerate(forms):
            total = total + _inner(form, form)
            for earlier in forms[:place]:
                total = total + 2 * _inner(earlier, form)
        return total.clamp(min=0)

    def rounding(self) -> Tensor:
        """The largest effect of rounding on a record's part of the sum, divided by its scale;
        (records,).

        `add_scaled` rounds a scaled factor to the factor's type. This changes each number by a
        relative u at most, and so the product by at most u sum_t |L_t| |R_t|.
        """
        total = self._none
        for use in self._factors:
            if _ROUNDING[use.right.dtype]:
                lengths = _lengths(use.left) * _lengths(use.right)
                total = total + _ROUNDING[use.right.dtype] * lengths.sum(1)
        return total

    def zero_all_but(self, usable: Tensor) -> None:
        """Set the gradients of the other records to zero; `usable` (records,) bool.

        Both factors are set to zero, because zero times infinity is not zero.
        """

        def kept(values: Tensor) -> Tensor:
            return torch.where(usable.view(-1, *[1] * (values.dim() - 1)), values, 0)

        self._whole = [Whole(kept(use.gradients)) for use in self._whole]
        self._factors = [Factors(kept(use.left), kept(use.right)) for use in self._factors]
        self._tokens = [Tokens(use.ids, kept(use.right)) for use in self._tokens]

    def add_scaled(self, scales: Tensor, *, out: Tensor) -> None:
        """out += sum_i scales_i G_i; `scales` (records,) float64, `out` like the parameter."""
        scales = scales.to(out.dtype)
        for whole in self._whole:
            out += torch.tensordot(scales, whole.gradients.to(out.dtype), dims=1)
        for tokens in self._tokens:
            scaled = _scaled(tokens.right, scales)
            out.index_add_(0, tokens.ids.flatten(), scaled.to(out.dtype))
        for factors in self._factors:
            scaled = _scaled(factors.right, scales).to(factors.right.dtype)
            _add_product(factors.left.flatten(0, 1).t(), scaled, out=out)

    def _forms(self) -> list[Use]:
        """At most one of each form: several uses of one form are one use with more positions."""
        forms: list[Use] = [*self._whole]
        if self._factors:
            lefts, rights = zip(*((u.left, u.right) for u in self._factors), strict=True)
            forms.append(Factors(_joined(lefts), _joined(rights)))
        if self._tokens:
            ids, rights = zip(*((u.ids, u.right) for u in self._tokens), strict=True)
            forms.append(Tokens(_joined(ids), _joined(rights)))
        return forms


def _inner(one: Use, other: Use) -> Tensor:
    """<G_i, H_i> for every record, (records,) float64. Forms come in the order of `_forms`."""
    match one, other:
        case Whole(g), Whole(h):
            return (g * h).flatten(1).sum(1, dtype=torch.float64)
        case Whole(g), Factors(left, right):
            return _sum(_product(left.to(g.dtype), g) * right)
        case Whole(g), Tokens(ids, right):
            places = torch.arange(len(ids), device=ids.device)[:, None]
            return _sum(g[places, ids] * right)
        case Factors(left, right), Factors(other_left, other_right):
            return _sum(_kernel(left, other_left) * _kernel(right, other_right))
        case Factors(left, right), Tokens(ids, other_right):
            rows = ids[:, None, :].expand(-1, left.shape[1], -1)
            return _sum(left.gather(2, rows) * _kernel(right, other_right))
        case Tokens(ids, right), Tokens(other_ids, other_right):
            same = ids[:, :, None] == other_ids[:, None, :]
            return _sum(same * _kernel(right, other_right))
    raise InvariantError("forms out of order")


def _kernel(one: Tensor, other: Tensor) -> Tensor:
    """<one_s, other_t> for all positions s and t: (records, S, T)."""
    common = torch.promote_types(one.dtype, other.dtype)
    return _product(one.to(common), other.to(common).transpose(1, 2))


def _product(one: Tensor, other: Tensor) -> Tensor:
    """A batched matrix product with a result in float32 or wider."""
    if one.dtype is torch.bfloat16:
        if one.is_cuda:
            return torch.bmm(one, other, out_dtype=torch.float32)
        one, other = one.float(), other.float()
    return torch.bmm(one, other)


def _add_product(one: Tensor, other: Tensor, *, out: Tensor) -> None:
    """out += one @ other, accumulated in the type of `out`."""
    if one.dtype is out.dtype:
        out.addmm_(one, other)
    elif one.is_cuda:
        out += torch.mm(one, other, out_dtype=out.dtype)
    else:
        out.addmm_(one.to(out.dtype), other.to(out.dtype))


def _scaled(values: Tensor, scales: Tensor) -> Tensor:
    """The rows of each record times the record's scale, (records * positions, columns)."""
    return (values * scales.view(-1, 1, 1)).flatten(0, 1)


def _sum(values: Tensor) -> Tensor:
    return values.sum((1, 2), dtype=torch.float64)


def _lengths(rows: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=2, dtype=torch.float32)
    return lengths


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
