"""Reads the user in a cell. All spellings of a user give one text."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from sugarbush.data.cells import is_missing, text_of
from sugarbush.privacy.users import is_user_name, normalised_user


def problem_of_user(cell: Any, column: str) -> str | None:
    """Return what is wrong with a cell of the column of users, or None."""
    if is_missing(cell) or (isinstance(cell, str) and not user_of(cell)):
        return f"column '{column}' (prepare.user_column) has no value"
    if not is_user_name(cell):
        return (
            f"column '{column}' (prepare.user_column) is not a text or a whole number, so it "
            "cannot name a user"
        )
    return None


def user_of(cell: Any) -> str:
    """Return the user in a cell, or an empty text. All spellings of a user give one text."""
    if isinstance(cell, Decimal | float | np.floating) and np.isfinite(float(cell)):
        cell = int(cell) if cell == int(cell) else cell
    return normalised_user(text_of(cell) or "")
