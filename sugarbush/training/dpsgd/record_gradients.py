"""Stores the per-record gradients of one parameter in the form that needs the least memory.

A gradient is a sum of three forms: whole gradients, products of two factors, and products with
one-hot token ids. Inner products between the forms give the norms, including cross terms. A product
is stored only if it is not larger than its factors.

If the terms of a squared norm cancel, the rounding error may be larger than the norm. So
`measure` also returns an upper bound on the norm of the gradient that `add_scaled`
adds. The bound includes the rounding errors of `measure` and of `add_scaled`. Let u be the unit
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

Factors in bfloat16 have exact products in float32. These products are added up in float32, in
blocks of 1,024 terms. A matrix unit of a GPU may truncate in place of rounding, and may align all
terms with the largest term (Fasi et al. 2021). So u is 2^-22, four times the u of float32. The
scaled rows are rounded to bfloat16 again, which adds 1.01 * 2^-8 S to the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sugarbush.errors import InvariantError

_OTHER_ROUNDINGS = 8  # the number 8 in the formula of kappa


@dataclass(frozen=True)
class _Arithmetic:
    """The addition of products of two numbers of one type: `block` is b, and `unit` is u."""

    block: int
    unit: float


_ARITHMETIC = {
    torch.float64: _Arithmetic(256, 2.0**-53),
    torch.float32: _Arithmetic(256, 2.0**-24),
    torch.bfloat16: _Arithmetic(1024, 2.0**-22),
}
# The square of a row's length is increased by 4 b 2^-126 / 2^-24, because products may underflow.
_UNDERFLOW = 4 * max(a.block for a in _ARITHMETIC.values()) * 2.0**-102
_ROUNDED_ROW = 1.01 * 2.0**-8  # relative error of a row that is rounded to bfloat16

# K records are added up in float32 at once. With T positions each, K^2 T is at most this number.
MOST_POSITIONS = 8192
_JOINED = 2**24  # whole gradients of more numbers are not copied side by side


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
        self.none = torch.zeros(records, dtype=torch.float64, device=device)
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

    @property
    def only_whole(self) -> Tensor | None:
        """Return the gradients in full, (records, numbers), if there is no other form."""
        if not self._whole or self._factors or self._tokens:
            return None
        return self._whole[0].gradients.flatten(1)

    def measured(self) -> _Measured:
        """Measure the sum of all uses."""
        forms, squares = self._forms(), self.none
        rows: list[tuple[Tensor, Tensor]] = []
        roundings = 0
        for index, form in enumerate(forms):
            of_form = _measure(form)
            squares = squares + of_form.squares
            for earlier in forms[:index]:
                squares = squares + 2 * _inner(earlier, form)
            rows += of_form.rows
            roundings = max(roundings, of_form.roundings)
        whole = bool(self._whole) and bool(rows)
        return _Measured(
            squares=squares,
            rows=rows,
            roundings=roundings,
            whole=_inner(forms[0], forms[0]) if whole else None,
            types=frozenset(_type(use) for use in [*forms, *self._factors, *self._tokens]),
        )

    def of_record(self, index: int) -> list[Tensor]:
        """Return the stored numbers of one record."""
        whole = [use.gradients[index] for use in self._whole]
        factors = [piece[index] for use in self._factors for piece in (use.left, use.right)]
        tokens = [piece[index] for use in self._tokens for piece in (use.ids, use.right)]
        return [*whole, *factors, *tokens]

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
        """Add sum_i scales_i G_i to `out`, in place; `scales` is (records,) float64.

        Factors in bfloat16 are added up in float32 for at most K records at once, and the sums of K
        records are added to `out`, which should be float64.
        """
        scales = scales.to(out.dtype)
        for whole in self._whole:
            if out.dtype is whole.gradients.dtype:
                out += torch.tensordot(scales, whole.gradients, dims=1)
            else:
                each = _scaled(whole.gradients.flatten(1)[:, None], scales.float())
                out += each.sum(0, dtype=out.dtype).view_as(out)
        for tokens in self._tokens:
            scaled = _scaled(tokens.right, scales)
            out.index_add_(0, tokens.ids.flatten(), scaled.to(out.dtype))
        for factors in self._factors:
            if factors.left.dtype is torch.bfloat16:
                _add_blocks(factors, scales, out)
                continue
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
class Norms:
    """The measures of each record's gradient of all parameters. Each is (records,) float64.

    `norms` are the computed norms |G|. `bounds` are upper bounds on the norms of the gradients that
    `add_scaled` adds at scale 1. `sizes` are at least S of all products of factors. A value is not
    finite if the gradient is not finite.
    """

    norms: Tensor
    bounds: Tensor
    sizes: Tensor


def measure(parameters: Sequence[RecordGradients]) -> Norms:
    """Measure the gradients of all `parameters` together.

    Small parameters are joined, and the last steps run once for all parameters, because each
    operation has a fixed cost on a GPU.
    """
    whole = sum(
        ((joined * joined).sum(1, dtype=torch.float64) for _, joined in _joined_whole(parameters)),
        start=torch.zeros_like(parameters[0].none),
    )
    measured = [p.measured() for p in parameters if p.only_whole is None]
    if not measured:
        return Norms(whole.sqrt(), whole.sqrt(), torch.zeros_like(whole))
    squares = torch.stack([m.squares for m in measured])  # (parameters, records)
    # rounding may give a small negative number; the overflow of a cross term is not small
    squares = torch.where(squares.isfinite(), squares.clamp(min=0), torch.inf)
    sizes, positions = _sizes(measured, like=squares)
    for index, m in enumerate(measured):
        if m.whole is not None:
            sizes[index] += m.whole.sqrt()
    units = [max(_ARITHMETIC[kind].unit for kind in m.types) if m.rows else 0.0 for m in measured]
    kappas = [m.roundings + _OTHER_ROUNDINGS for m in measured]
    products = squares.new_tensor([k * u for k, u in zip(kappas, units, strict=True)])[:, None]
    narrow = [_ROUNDED_ROW * (bool(m.rows) and torch.bfloat16 in m.types) for m in measured]
    adding = 1.01 * (positions + 4) * squares.new_tensor(units)[:, None]
    adding = adding + squares.new_tensor(narrow)[:, None]
    bounds = (squares + (products + positions**2 * 2.0**-53) * sizes**2).sqrt() + adding * sizes
    return Norms(
        (squares.sum(0) + whole).sqrt(),
        ((bounds**2).sum(0) + whole).sqrt(),
        (sizes**2).sum(0).sqrt(),
    )


def add_scaled(
    parameters: Sequence[RecordGradients], scales: Tensor, *, outs: Sequence[Tensor]
) -> None:
    """Add sum_i scales_i G_i of each parameter to its tensor of `outs`, in place.

    `scales` are (records,) float64.
    """
    for indices, joined in _joined_whole(parameters):
        kind = outs[indices[0]].dtype
        if kind is joined.dtype:
            total = scales.to(kind) @ joined
        else:
            total = (joined * scales.to(joined.dtype)[:, None]).sum(0, dtype=kind)
        targets = [outs[index].view(-1) for index in indices]
        pieces = torch.split(total, [len(target) for target in targets])
        torch._foreach_add_(targets, pieces)
    for parameter, out in zip(parameters, outs, strict=True):
        if parameter.only_whole is None:
            parameter.add_scaled(scales, out=out)


def _joined_whole(parameters: Sequence[RecordGradients]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the indices of parameters that only have whole gradients, and these gradients side by
    side: (records, numbers)."""
    indices: list[int] = []
    pieces: list[Tensor] = []
    numbers = 0
    for index, parameter in enumerate(parameters):
        piece = parameter.only_whole
        if piece is None:
            continue
        if pieces and (numbers + piece.numel() > _JOINED or piece.dtype is not pieces[0].dtype):
            yield indices, torch.cat(pieces, dim=1)
            indices, pieces, numbers = [], [], 0
        indices.append(index)
        pieces.append(piece)
        numbers += piece.numel()
    if pieces:
        yield indices, pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """The gradients of one parameter, or of one form of it.

    `squares` are |G|^2, (records,) float64. `rows` are the squared lengths of the rows of both
    factors, (records, positions) each, for each pair of factors. `roundings` is n(rows) +
    n(columns) of the module's docstring. `whole` are the squares of the whole gradient beside the
    factors, if there is one.
    """

    squares: Tensor
    rows: list[tuple[Tensor, Tensor]]
    roundings: int
    whole: Tensor | None = None
    types: frozenset[torch.dtype] = frozenset()


def _measure(form: Use) -> _Measured:
    match form:
        case Whole():
            return _Measured(squares=_inner(form, form), rows=[], roundings=0)
        case Factors(left, right):
            lefts, rights = _kernel(left, left), _kernel(right, right)
            roundings = sum(_roundings(f.shape[2], f.dtype) for f in (left, right))
            return _measured(_sum(lefts * rights), lefts, rights, roundings)
        case Tokens(ids, right):
            same, rights = ids[:, :, None] == ids[:, None, :], _kernel(right, right)
            roundings = _roundings(right.shape[2], right.dtype)
            return _measured(_sum(same * rights), torch.ones_like(rights), rights, roundings)


def _measured(squares: Tensor, lefts: Tensor, rights: Tensor, roundings: int) -> _Measured:
    """`lefts` and `rights` (records, T, T) are the inner products of the rows. Their diagonals are
    the squared lengths of the rows."""
    rows = (lefts.diagonal(dim1=1, dim2=2), rights.diagonal(dim1=1, dim2=2))
    return _Measured(squares=squares, rows=[rows], roundings=roundings)


def _sizes(measured: Sequence[_Measured], *, like: Tensor) -> tuple[Tensor, Tensor]:
    """Compute S and the number of nonzero positions of all products: (parameters, records)."""
    sizes, positions = torch.zeros_like(like), torch.zeros_like(like)
    by_length: dict[int, list[tuple[int, Tensor, Tensor]]] = {}
    for index, m in enumerate(measured):
        for left, right in m.rows:
            by_length.setdefault(left.shape[1], []).append((index, left, right))
    for pairs in by_length.values():
        indices = torch.tensor([index for index, _, _ in pairs], device=like.device)
        left = torch.stack([left for _, left, _ in pairs]).double()
        right = torch.stack([right for _, _, right in pairs]).double()
        of_pairs = ((left + _UNDERFLOW) * (right + _UNDERFLOW)).sqrt().sum(2)
        sizes.index_add_(0, indices, of_pairs)
        nonzero = ((left > 0) & (right > 0)).sum(2, dtype=torch.float64)
        positions.index_add_(0, indices, nonzero)
    return sizes, positions


def _roundings(terms: int, dtype: torch.dtype) -> int:
    """Compute n of item 1 in the module's docstring, for a product over `terms` terms."""
    block = _ARITHMETIC[dtype].block
    return min(terms, block) + -(-terms // block)


def _type(form: Use) -> torch.dtype:
    return form.gradients.dtype if isinstance(form, Whole) else form.right.dtype


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
    """Multiply batches of matrices. The products are added up in blocks. The result of factors in
    bfloat16 is float32."""
    size = _ARITHMETIC[left.dtype].block
    total = _multiply(left[:, :, :size], right[:, :size])
    for start in range(size, left.shape[2], size):
        block = slice(start, start + size)
        total += _multiply(left[:, :, block], right[:, block])
    return total


def _multiply(left: Tensor, right: Tensor) -> Tensor:
    if left.dtype is not torch.bfloat16:
        return torch.bmm(left, right)
    if left.device.type == "cuda":
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())


def _add_blocks(factors: Factors, scales: Tensor, out: Tensor) -> None:
    """Add sum_i scales_i G_i to `out` from factors in bfloat16, K records at once."""
    positions = factors.left.shape[1]
    if positions > MOST_POSITIONS:
        raise InvariantError(f"a record has more than {MOST_POSITIONS} positions")
    count = math.isqrt(MOST_POSITIONS // positions)
    # The product is computed in float32 and rounded once.
    scaled = torch.empty_like(factors.right)
    torch.mul(factors.right, scales.float().view(-1, 1, 1), out=scaled)
    even = len(scaled) // count * count
    lefts, rights = factors.left, scaled
    for piece in (slice(0, even), slice(even, None)):
        if not len(lefts[piece]):
            continue
        blocks = max(1, len(lefts[piece]) // count)
        left = lefts[piece].reshape(blocks, -1, lefts.shape[2])
        right = rights[piece].reshape(blocks, -1, rights.shape[2])
        sums = _multiply(left.transpose(1, 2), right)
        out += sums[0] if blocks == 1 else sums.sum(0, dtype=out.dtype)


def _scaled(values: Tensor, scales: Tensor) -> Tensor:
    """Multiply the rows of each record by the record's scale: (records * positions, columns)."""
    return (values * scales.view(-1, 1, 1)).flatten(0, 1)


def _sum(values: Tensor) -> Tensor:
    return values.sum((1, 2), dtype=torch.float64)


def _joined(pieces: tuple[Tensor, ...]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
