"""Stores the per-record gradients of one parameter in the form that needs the least memory.

A gradient is a sum of three forms: whole gradients, products of two factors, and products with
one-hot token ids. Inner products between the forms give the norms, including cross terms. A product
is stored only if it is not larger than its factors.

If the terms of a squared norm cancel, the rounding error may be larger than the norm. So
`RecordGradients.norms` also returns an upper bound on the norm of the gradient that `add_scaled`
adds. The bound includes the rounding errors of `norms` and of `add_scaled`. Let u be the unit
roundoff, and L_t and R_t the rows of the factors. The size S is sum_t |L_t| |R_t|. For a whole
gradient, S is its norm. For several forms, S is the sum of their sizes.

1. A product over k terms is added up in blocks of b terms. Its error is at most gamma_n |x| |y|,
   n = min(k, b) + ceil(k / b), in any order within a block (Higham 2002, Eq. 3.5).
2. So the error of |G|^2 is at most kappa u S^2, kappa = n(rows) + n(columns) + 8. The 8 is for the
  product of the two inner products, the rounding of S, and terms of second order.
3. The sum over the entries of p x p positions is in float64. Its error is at most p^2 2^-53 S^2.
4. Scaling and adding up p rows has an error of at most 1.01 (p + 4) u S, for p < 2^17.

    bound = sqrt(computed + (kappa u + p^2 2^-53) S^2) + 1.01 (p + 4) u S

Positions count only if their rows are not zero. So the bound of a record does not depend on its
padding. A whole gradient is added as it is stored, so its norm has no error of 1 to 4. The
derivation, with underflow, is in docs/decisions/dp-sgd-clipping.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sugarbush.errors import InvariantError

_BLOCK = 256  # b: number of terms that a product adds up at once
_OTHER_ROUNDINGS = 8  # the number 8 in the formula of kappa
# The square of a row's length is increased by 4 b 2^-126 / 2^-24, because products may underflow.
_UNDERFLOW = 4 * _BLOCK * 2.0**-102


@dataclass(frozen=True)
class Whole:
    """Gradients in full, (records, *shape of the parameter)."""

    gradients: Tensor


@dataclass(frozen=True)
class Factors:
    """G_i = left_i^T right_i: (records, positions, rows) and (records, positions, columns)."""

    left: Tensor
    right: Tensor

    def larger_than_product(self, positions: int) -> bool:
        """Return whether factors with `positions` positions are larger than their product."""
        rows, columns = self.left.shape[2], self.right.shape[2]
        return bool(positions * (rows + columns) >= rows * columns)


@dataclass(frozen=True)
class Tokens:
    """G_i = onehot(ids_i)^T right_i: (records, positions) and (records, positions, columns)."""

    ids: Tensor
    right: Tensor


Use = Whole | Factors | Tokens


class RecordGradients:
    """The sum of all uses of one parameter, for each record.

    `usual_length` is a public number of positions. This number decides which factors are multiplied
    at once. The longest record of a micro-batch determines the actual number of positions. If the
    actual number decided, the longest record would change the scales of all other records.
    """

    def __init__(self, *, records: int, usual_length: int, device: torch.device) -> None:
        self._usual_length = usual_length
        self._none = torch.zeros(records, dtype=torch.float64, device=device)
        self._whole: list[Whole] = []
        self._factors: list[Factors] = []
        self._tokens: list[Tokens] = []

    def add(self, use: Use) -> None:
        match use:
            case Factors() if use.larger_than_product(self._usual_length):
                self.add(Whole(_product(use.left.transpose(1, 2), use.right)))
            case Factors():
                self._factors.append(use)
            case Tokens():
                self._tokens.append(use)
            case Whole() if self._whole:
                self._whole = [Whole(self._whole[0].gradients + use.gradients)]
            case Whole():
                self._whole = [use]

    def norms(self) -> tuple[Tensor, Tensor]:
        """Compute |G_i|, and an upper bound on the norm of the gradient that `add_scaled` adds at
        scale 1.

        The norms and the bounds are (records,) float64. A value is not finite if the gradient is
        not finite.
        """
        forms, squares = self._forms(), self._none
        sizes = positions = self._none
        roundings = 0
        for index, form in enumerate(forms):
            measured = _measure(form)
            squares = squares + measured.squares
            for earlier in forms[:index]:
                squares = squares + 2 * _inner(earlier, form)
            sizes, positions = sizes + measured.sizes, positions + measured.positions
            roundings = max(roundings, measured.roundings)
        squares = squares.clamp(min=0)
        if not roundings:
            return squares.sqrt(), squares.sqrt()
        unit = max(_unit_roundoff(form) for form in forms)
        error = (roundings + _OTHER_ROUNDINGS) * unit + positions**2 * 2.0**-53
        adding = 1.01 * (positions + 4) * unit * sizes
        return squares.sqrt(), (squares + error * sizes**2).sqrt() + adding

    def zero_all_but(self, usable: Tensor) -> None:
        """Set the gradients of all other records to zero; `usable` is (records,) bool.

        Both factors are set to zero, because zero times infinity is not zero.
        """

        def kept(values: Tensor) -> Tensor:
            return torch.where(usable.view(-1, *[1] * (values.dim() - 1)), values, 0)

        self._whole = [Whole(kept(use.gradients)) for use in self._whole]
        self._factors = [Factors(kept(use.left), kept(use.right)) for use in self._factors]
        self._tokens = [Tokens(use.ids, kept(use.right)) for use in self._tokens]

    def add_scaled(self, scales: Tensor, *, out: Tensor) -> None:
        """Add sum_i scales_i G_i to `out`, in place; `scales` is (records,) float64."""
        scales = scales.to(out.dtype)
        for whole in self._whole:
            out += torch.tensordot(scales, whole.gradients.to(out.dtype), dims=1)
        for tokens in self._tokens:
            scaled = _scaled(tokens.right, scales)
            out.index_add_(0, tokens.ids.flatten(), scaled.to(out.dtype))
        for factors in self._factors:
            scaled = _scaled(factors.right, scales).to(out.dtype)
            out.addmm_(factors.left.flatten(0, 1).t().to(out.dtype), scaled)

    def _forms(self) -> list[Use]:
        """Join the uses of each form into one use with all positions."""
        forms: list[Use] = [*self._whole]
        if self._factors:
            lefts, rights = zip(*((u.left, u.right) for u in self._factors), strict=True)
            forms.append(Factors(_joined(lefts), _joined(rights)))
        if self._tokens:
            ids, rights = zip(*((u.ids, u.right) for u in self._tokens), strict=True)
            forms.append(Tokens(_joined(ids), _joined(rights)))
        return forms


@dataclass(frozen=True)
class _Measured:
    """Return |G|^2, the size S and the number of nonzero positions. Each result is (records,)
    float64. G contains the gradients of one form only: whole, factors or tokens. `roundings` is
    n(rows) + n(columns) of the module's docstring, or 0 for a whole gradient.
    """

    squares: Tensor
    sizes: Tensor
    positions: Tensor
    roundings: int


def _measure(form: Use) -> _Measured:
    match form:
        case Whole():
            squares = _inner(form, form)
            return _Measured(squares, squares.sqrt(), torch.zeros_like(squares), 0)
        case Factors(left, right):
            lefts, rights = _kernel(left, left), _kernel(right, right)
            roundings = _roundings(left.shape[2]) + _roundings(right.shape[2])
            return _measured(_sum(lefts * rights), lefts, rights, roundings)
        case Tokens(ids, right):
            same, rights = ids[:, :, None] == ids[:, None, :], _kernel(right, right)
            lefts = torch.ones_like(rights)
            return _measured(_sum(same * rights), lefts, rights, _roundings(right.shape[2]))


def _measured(squares: Tensor, lefts: Tensor, rights: Tensor, roundings: int) -> _Measured:
    """Compute the sizes from the inner products of the rows, `lefts` and `rights` (records, T, T).
    The diagonals of the inner products are the squared lengths of the rows."""
    left, right = (kernel.diagonal(dim1=1, dim2=2).double() for kernel in (lefts, rights))
    sizes = ((left + _UNDERFLOW) * (right + _UNDERFLOW)).sqrt().sum(1)
    positions = ((left > 0) & (right > 0)).sum(1, dtype=torch.float64)
    return _Measured(squares, sizes, positions, roundings)


def _roundings(terms: int) -> int:
    """Compute n of item 1 in the module's docstring, for a product over `terms` terms."""
    return min(terms, _BLOCK) + -(-terms // _BLOCK)


def _unit_roundoff(form: Use) -> float:
    values = form.gradients if isinstance(form, Whole) else form.right
    return torch.finfo(values.dtype).eps / 2


def _inner(form: Use, other: Use) -> Tensor:
    """Compute <G_i, H_i> per record, (records,) float64. `_forms` defines the order of the two
    forms."""
    match form, other:
        case Whole(g), Whole(h):
            return (g * h).flatten(1).sum(1, dtype=torch.float64)
        case Whole(g), Factors(left, right):
            return _sum(_product(left.to(g.dtype), g) * right)
        case Whole(g), Tokens(ids, right):
            record_indices = torch.arange(len(ids), device=ids.device)[:, None]
            return _sum(g[record_indices, ids] * right)
        case Factors(left, right), Tokens(ids, other_right):
            rows = ids[:, None, :].expand(-1, left.shape[1], -1)
            return _sum(left.gather(2, rows) * _kernel(right, other_right))
    raise InvariantError("the forms are not in the order of _forms")


def _kernel(left: Tensor, right: Tensor) -> Tensor:
    """Compute <one_s, other_t> for all positions s and t: (records, S, T)."""
    common = torch.promote_types(left.dtype, right.dtype)
    return _product(left.to(common), right.to(common).transpose(1, 2))


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply batches of matrices. The products are added up in blocks of `_BLOCK` terms."""
    total = torch.bmm(left[:, :, :_BLOCK], right[:, :_BLOCK])
    for start in range(_BLOCK, left.shape[2], _BLOCK):
        block = slice(start, start + _BLOCK)
        total += torch.bmm(left[:, :, block], right[:, block])
    return total


def _scaled(values: Tensor, scales: Tensor) -> Tensor:
    """Multiply the rows of each record by the record's scale: (records * positions, columns)."""
    return (values * scales.view(-1, 1, 1)).flatten(0, 1)


def _sum(values: Tensor) -> Tensor:
    return values.sum((1, 2), dtype=torch.float64)


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
