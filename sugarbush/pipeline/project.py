"""A project: the folder that holds params.yaml, and everything that its settings name.

Stages receive a `Project` and nothing else. It opens the ledger, the stores, the encoders and the
generator of its settings, so that no stage builds one by hand.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sugarbush.data.private_store import PrivateStore
from sugarbush.data.schema import Schema, load_schema
from sugarbush.paths import Roots, find_input, state_root
from sugarbush.pipeline.settings import FILE, ProjectSettings, load_params
from sugarbush.privacy.key import state_key
from sugarbush.privacy.settings import Purpose

if TYPE_CHECKING:
    from sugarbush.embedding.encoder import Encoder
    from sugarbush.methods.interface import Method, MethodInputs
    from sugarbush.privacy.budget import BudgetPlan
    from sugarbush.privacy.ledger import Ledger


class Project:
    """The project in `base`. Raises ParamsError, SchemaError and InputError as it reads."""

    def __init__(self, base: Path, *, settings: ProjectSettings | None = None) -> None:
        self.base = base
        self.roots = Roots(base)
        if settings is not None:
            self.__dict__["settings"] = settings

    @cached_property
    def settings(self) -> ProjectSettings:
        """The settings of params.yaml."""
        return load_params(self.base / FILE)

    @cached_property
    def schema(self) -> Schema:
        """The schema that prepare.schema names."""
        return load_schema(self.find(self.settings.prepare.schema_))

    @cached_property
    def state(self) -> Path:
        """The folder of what outlives a run: ledgers, key, finished draws, received answers."""
        return state_root(self.base, example=self.settings.privacy.purpose is Purpose.EXAMPLE)

    @property
    def key(self) -> bytes:
        """The installation's secret key."""
        return state_key(self.state)

    @property
    def private(self) -> PrivateStore:
        """The private files of this project."""
        return PrivateStore(self.roots.private)

    def find(self, name: str) -> Path:
        """A file that the settings name."""
        return find_input(self.base, name)
