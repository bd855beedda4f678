"""Tables and histograms under differential privacy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from sugarbush.api.ledgers import open_session, require_privacy, require_unit_of_a_record
from sugarbush.api.schemas import SchemaLike, open_schema
from sugarbush.arguments import (
    ArrowFrame,
    names_arguments,
    pandas_frame,
    type_name,
)
from sugarbush.data.cells import Listing, cells_of, is_missing, text_of
from sugarbush.data.drawn_values import draw_values
from sugarbush.data.numbers import NotationsOfColumns
from sugarbush.data.reading import require_column
from sugarbush.data.records import require_decimal_signs
from sugarbush.data.schema import Schema
from sugarbush.data.split import Unmatched, unmatched_values
from sugarbush.errors import InputError, ParamsError, PrivateFactWarning, SchemaError
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.privacy.budget import BudgetRequest, make_plan
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.mechanisms import noisy_histogram
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import public_rng
from sugarbush.release.folders import frame_of_values, values_of
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings

_MOST_RECORDS = 10**6
_NO_VALUE: Final = "\0"  # the text of the category None


@names_arguments
def dp_table(
    frame: pd.DataFrame | ArrowFrame,
    *,
    schema: SchemaLike,
    privacy: PrivacySettings,
    engine: str = "sugarbush",
    seed: int = 1,
    state: Path | str | None = None,
) -> Released[pd.DataFrame]:
    """Synthesize a table that resembles `frame`, with AIM, under differential privacy.

    Guarantee: (`privacy.epsilon`, `privacy.delta`)-DP per row, under add/remove adjacency. The cost
    is charged to the ledger of `privacy.dataset` before any noise is drawn. Each attribute of
    `schema` is read from its `column` of the frame, which contains the values as they are, such as
    texts or numbers. The result has one column per attribute, with values of `Attribute.domain`,
    and its number of rows is a DP estimate. A column is numeric if all listed values are numbers.
    An attribute with a type has numbers or dates, uniform in the bins. Every row obeys the rules of
    the schema. Rows in which no numbers or dates can obey them are left out, and
    `attrs["rows_that_broke_a_rule"]` is their number. The
    ledger cannot recognise the same table under another `dataset` name, because a table has no
    fingerprint.

    Raises SchemaError for an attribute without a column, and if no row has one of the values of an
    attribute. Raises ParamsError for an engine that is not installed, and InputError for a missing
    column, for a cell that is no number or date of its attribute's type, and for a column of texts
    such as 1.234 whose decimal sign is open. Also raises BudgetExceededError. Errors are raised
    before the charge. Source: McKenna et al. 2022, "AIM"; `docs/decisions/aim-in-gaussian-dp.md`.

    A PrivateFactWarning names the listed values that no row has. Like an error, this is an exact
    fact for the caller alone: it is outside the guarantee and no part of the result. Do not share
    the output of a notebook that shows it. `warnings.simplefilter("ignore",
    sb.PrivateFactWarning)` turns it off.

    >>> import pandas as pd, sugarbush as sb, tempfile
    >>> frame = pd.DataFrame({"stars": [1, 3, 5, 5] * 250, "product": ["lamp", "chair"] * 500})
    >>> schema = {"subject": "orders", "attributes": [
    ...     {"name": "stars", "column": "stars", "bins": [2, 4]},
    ...     {"name": "product", "column": "product", "values": ["lamp", "chair"]}]}
    >>> with tempfile.TemporaryDirectory() as state:
    ...     table = sb.dp_table(frame, schema=schema, state=Path(state),
    ...                         privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="orders"))
    >>> list(table.value.columns), "chair" in set(table.value["product"])
    (['stars', 'product'], True)
    """
    from sugarbush.tables.engines import synthesize_table

    own = _table_schema(schema)
    codes = _table_codes(pandas_frame("frame", frame), own)
    privacy = require_privacy(privacy)
    require_unit_of_a_record(privacy, record="each row")
    try:
        params = SynthesizeMetadataSettings.model_validate({"engine": engine})
    except ValidationError:
        known = ", ".join(name.value for name in Engine)
        raise ParamsError(f"engine: expected one of {known} (got {engine!r})") from None
    plan = make_plan(
        [BudgetRequest(name=METADATA, share=1.0, count=0)],
        epsilon=privacy.epsilon,
        delta=privacy.delta,
    )
    session = open_session(privacy, stage="dp_table", state=state)
    table = synthesize_table(
        Private(codes),
        own.domain,
        mu=plan.of(METADATA).mu,
        params=params,
        session=session,
        rng=public_rng(seed, "table"),
        rules=own.category_rules,
    )
    return table.rows.map(lambda rows: _values(rows, own, seed=seed))


def _values(rows: NDArray[np.int64], schema: Schema, *, seed: int) -> pd.DataFrame:
    """Return released rows of codes as values, without the rows that break a rule."""
    rng = public_rng(seed, "values")
    values, broken = draw_values(
        schema, rows, shares=lambda attempt, again: rng.random((len(again), len(schema.names)))
    )
    frame = frame_of_values(values_of(rows[~broken], schema, numbers=values[~broken]))
    frame.attrs["rows_that_broke_a_rule"] = int(broken.sum())
    return frame


@names_arguments
def private_histogram(
    values: Iterable[Any],
    *,
    categories: Sequence[Any],
    privacy: PrivacySettings,
    user: str | None = None,
    state: Path | str | None = None,
) -> Released[pd.Series[int]]:
    """Count the values in each category, with noise. A count may be negative.

    Guarantee: (`privacy.epsilon`, `privacy.delta`)-DP by the discrete Gaussian mechanism, for
    adding or removing one value. If `privacy.unit` is user, the guarantee is for adding or removing
    one user with at most `privacy.records_per_user` values, and the ledger needs `user`, the name
    of the user column. The cost is charged to the ledger of `privacy.dataset` before the noise is
    drawn. `categories` are public and distinct. A value has a category as a cell has a listed value
    in `dp_table`: 1, 1.0 and "1" are the same, a date is 2024-05-01, and case and surplus spaces do
    not matter. None is a category for missing values. A value outside `categories` is counted in
    the last category. The ledger cannot recognise the same values under another `dataset` name,
    because the values have no fingerprint. Raises ParamsError, SchemaError if no value has a
    category, or BudgetExceededError before the charge. As in `dp_table`, a PrivateFactWarning names
    the categories that no value has.

    >>> import sugarbush as sb, tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     counts = sb.private_histogram(["a", "b", "a"] * 100, categories=["a", "b", "other"],
    ...                                   privacy=sb.Privacy(epsilon=1, dataset="letters"),
    ...                                   state=Path(state))
    >>> list(counts.value.index)
    ['a', 'b', 'other']
    """
    listing = _listing_of(list(categories))
    privacy = require_privacy(privacy)
    if privacy.records_per_user > _MOST_RECORDS:
        raise ParamsError(
            f"privacy.records_per_user must be at most {_MOST_RECORDS} "
            f"(got {privacy.records_per_user})"
        )
    if (privacy.unit is Unit.USER) != (user is not None):
        raise ParamsError(
            "a histogram of users needs both `privacy.unit: user` and user=, the name of the user "
            'column, for example user="customer"'
        )
    if isinstance(values, str | bytes | Mapping | pd.DataFrame):
        raise ParamsError(f"private_histogram needs a list of values, got {type_name(values)}")
    bins = _bins(cells_of(values), listing)
    plan = make_plan(
        [BudgetRequest(name=LABELS, share=1.0, count=1)],
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        records_per_unit=privacy.records_per_user,
    )
    session = open_session(privacy, stage="private_histogram", state=state, user_column=user)
    counts = noisy_histogram(
        Private(bins), size=len(listing.values), stddev=plan.of(LABELS).stddev, session=session
    )
    return counts.map(
        lambda found: pd.Series(found, index=pd.Index(list(categories), dtype=object))
    )


def _table_schema(schema: SchemaLike) -> Schema:
    """Return the schema of a table. Raises SchemaError if an attribute is not a column."""
    own = open_schema(schema)
    for attribute in own.attributes:
        if attribute.column is None:
            raise SchemaError(
                f"schema: attribute '{attribute.name}' is read from texts by "
                f"{attribute.value_source}. A table needs `column`, the name of a column"
            )
    return own


def _listing_of(categories: Sequence[Any]) -> Listing:
    """Return the texts of the categories. Raises ParamsError unless all are different."""
    texts = tuple(_NO_VALUE if is_missing(each) else text_of(each) or "" for each in categories)
    listing = Listing(texts)
    if not texts or listing.repeated:
        raise ParamsError(
            "categories: expected at least one category, and all of them distinct. 1, 1.0 and '1' "
            "are the same category"
        )
    return listing


def _bins(cells: Sequence[Any], listing: Listing) -> NDArray[np.int64]:
    """Return the index of the category of each cell. Raises SchemaError if no cell has one."""
    last = len(listing.values) - 1
    named = Listing(listing.values[:-1])  # the last one may be no number beside numbers
    places = [
        listing.place(_NO_VALUE if is_missing(cell) else cell)
        if (place := named.place(cell)) is None
        else place
        for cell in cells
    ]
    found = {place for place in places if place is not None}
    if places and not found:
        raise SchemaError(
            "categories: no value is one of them, so the histogram would have one category. No "
            "budget was spent. Compare the spelling of the categories and of the values"
        )
    unused = [shown for at, shown in enumerate(listing.values) if at not in {*found, last}]
    if places and unused:
        _warn([Unmatched("categories", tuple(unused), by_all=False)])
    return np.array([last if place is None else place for place in places], dtype=np.int64)


def _warn(unmatched: Sequence[Unmatched]) -> None:
    for each in unmatched:
        warnings.warn(
            f"'{each.attribute}': no row has these listed values: {each.shown}. If rows should "
            "have them, compare the spelling. Not DP: do not share",
            PrivateFactWarning,
            stacklevel=5,
        )


def _table_codes(frame: pd.DataFrame, schema: Schema) -> NDArray[np.int64]:
    """Return the codes (n, d) of the values in the frame, in schema order."""
    columns, notations = [], NotationsOfColumns()
    names = list(map(str, frame.columns))
    for attribute in schema.attributes:
        column = str(attribute.column)
        require_column(frame, column, asked_by=f"attribute '{attribute.name}'")
        cells = cells_of(frame.iloc[:, names.index(column)])
        columns.append(cells)
        for cell in cells if attribute.needs_decimal_sign else ():
            notations.add(column, cell)
        problems = ((n, p) for n, cell in enumerate(cells, 1) if (p := attribute.problem(cell)))
        if (problem := next(problems, None)) is not None:
            raise InputError(
                f"the frame, row {problem[0]}: column '{column}' {problem[1]} (attribute "
                f"'{attribute.name}')"
            )
    require_decimal_signs(notations, schema, source="the frame", setting="frame")
    unmatched = unmatched_values(zip(*columns, strict=True), schema) if len(frame) else []
    for each in unmatched:
        if each.by_all:
            raise SchemaError(
                f"attribute '{each.attribute}': no row of column "
                f"'{schema.attribute(each.attribute).column}' has one of its values, so the table "
                "would have one value. No budget was spent. Compare the spelling of the values in "
                "the schema and in the frame"
            )
    _warn(unmatched)
    return np.array(
        [[a.code(cell) for cell in own] for a, own in zip(schema.attributes, columns, strict=True)],
        dtype=np.int64,
    ).T.reshape(len(frame), len(columns))
