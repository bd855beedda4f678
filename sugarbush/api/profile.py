"""A DP profile of a frame, and the schema that follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import ValidationError

from sugarbush.api.frame_arguments import FrameArguments
from sugarbush.api.ledgers import state_folder
from sugarbush.arguments import ArrowFrame, names_arguments, pandas_frame
from sugarbush.data.schema import Schema
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.one_text import TEXT
from sugarbush.errors import ParamsError
from sugarbush.html_table import html_table
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.spending import Spending, spending_of
from sugarbush.profiling.release import ReleasedProfile, interval
from sugarbush.profiling.view import profile_frame, share_tables

if TYPE_CHECKING:
    from sugarbush.privacy.settings import PrivacySettings


@dataclass(frozen=True)
class Profile:
    """A released profile of a corpus: everything in it may be published.

    `frame` has the shares of values, words, and rules of form, each with the 95% interval of its
    noise. `schema()` is a schema for `prepare`, and `synthesize` counts the charges of the profile.
    """

    values: ReleasedProfile = field(repr=False)
    _ledger: Ledger = field(repr=False)
    form: TextForm | None = field(default=None, repr=False)

    @property
    def frame(self) -> pd.DataFrame:
        """All shares: what, value, share, low, high."""
        return profile_frame(self.values)

    @property
    def records(self) -> int:
        """The DP number of records of the training part, or of users if the unit is a user."""
        return self.values.records

    @property
    def epsilon(self) -> float:
        """The epsilon of all charges on the dataset so far, because this profile may be chosen
        among several. `epsilon_of_this_profile` is that of this profile alone."""
        return self._spending().epsilon

    @property
    def epsilon_of_this_profile(self) -> float:
        """The epsilon of the charges of this profile. After an interruption, it can exceed that of
        the plan, because its mechanisms are then in two plans. Raises LedgerError if the ledger is
        not there."""
        return self._spending().of_run

    def _spending(self) -> Spending:
        """Return what the ledger says now. Raises LedgerError if the ledger is not there."""
        return spending_of(self._ledger.snapshot(), self.ledger_ids)

    @property
    def ledger_ids(self) -> tuple[str, ...]:
        return self.values.ledger_ids

    def schema(self, subject: str | None = None) -> Schema:
        """Return the schema that the profile proposes. `subject` describes the texts."""
        from sugarbush.profiling.draft import draft_from_profile  # slow

        return draft_from_profile(self.values, subject=subject, form=self.form).schema

    def save(self, folder: Path | str, *, subject: str | None = None) -> None:
        """Write profile.json, profile.html and schema.yaml into a folder."""
        from sugarbush.profiling.draft import draft_from_profile, schema_text
        from sugarbush.profiling.page import render_profile

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        draft = draft_from_profile(self.values, subject=subject, form=self.form)
        self.values.save(folder)
        page = render_profile(self.values, title=draft.schema.subject, spending=self._spending())
        (folder / "profile.html").write_text(page, encoding="utf-8")
        file = None
        if self.form is not None and self.form.json_schema is not None:
            file = "record.schema.json"
            (folder / file).write_text(json.dumps(self.form.json_schema, indent=1) + "\n")
        text = schema_text(draft, self.values, json_schema=file)
        (folder / "schema.yaml").write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str:
        rows = [
            (table.title, name, interval(share))
            for table in share_tables(self.values)
            for name, share in table.shares
            if share.low > 0
        ]
        return html_table(
            f"Profile of {self.values.dataset}: {self._spending().line('this profile')}, at delta "
            f"{rounded_up(self.values.delta)}, per {self.values.unit}",
            rows,
            header=("what", "value", "share of the records"),
            note="Shares whose interval begins at 0 are not shown.",
        )


@names_arguments
def profile(
    frame: pd.DataFrame | ArrowFrame,
    *,
    text: str | Mapping[str, Any],
    privacy: PrivacySettings,
    columns: Sequence[str] | None = None,
    epsilon: float = 0.2,
    donated: pd.DataFrame | ArrowFrame | Sequence[str] | None = None,
    user: str | None = None,
    record_id: str | None = None,
    settings: Mapping[str, Any] | None = None,
    state: Path | str | None = None,
    new_draw: bool = False,
) -> Profile:
    """Measure what a frame contains, under differential privacy, and propose a schema.

    Guarantee: (`epsilon`, `privacy.delta`)-DP per `privacy.unit`, under add/remove adjacency. All
    mechanisms are planned together and charged to the ledger of `privacy.dataset` before each draw.
    A user gives one record, chosen by a keyed hash. A second call with equal arguments restores the
    profile and costs nothing; with `new_draw`, it draws and charges again.

    `text` is the column with the texts, or the shape of a record as under `text` of a schema, such
    as {"fields": ["subject", "body"]}. The schema then requests the released lengths.
    `columns` are the columns whose values are counted; None counts all columns of the frame except
    the text, the user and the id, so their names must be public. `privacy.epsilon` limits a later
    release together with this profile, and the profile is refused before the first draw if the cap
    does not allow both. The other arguments are those of `prepare`. The profile reads the
    training part of the frame only. Raises ParamsError, InputError or BudgetExceededError.

    >>> import pandas as pd, sugarbush as sb, tempfile
    >>> frame = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(3000)],
    ...                       "shop": ["north", "south"] * 1500})
    >>> with tempfile.TemporaryDirectory() as state:
    ...     found = sb.profile(frame, text="message", state=Path(state),
    ...                        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"))
    ...     sorted(found.schema("letters").attribute("shop").values), found.epsilon <= 0.2
    (['north', 'south'], True)
    """
    from sugarbush.data.private_columns import private_name, private_names
    from sugarbush.pipeline.opening import open_project  # slow
    from sugarbush.profiling.requests import profile_of_frame, refuse_uncounted

    frame = pandas_frame("the corpus", frame).rename(columns=str)
    form = None if isinstance(text, str) else _form(text)
    named_text = text if isinstance(text, str) else TEXT
    arguments = FrameArguments(
        frame=frame,
        text=named_text,
        privacy=privacy,
        generator=None,
        donated=donated,
        user=user,
        record_id=record_id,
        settings={**(settings or {}), "profile": {"epsilon": epsilon}},
        state=state,
    )
    if isinstance(columns, str):
        raise ParamsError("columns: expected a list of names, not one text")
    named = list(dict.fromkeys(map(str, frame.columns if columns is None else columns)))
    project_settings = arguments.project_settings()
    texts = {named_text} if form is None else {*form.shape.columns}
    if columns is None and form is not None:
        named += form.shape.computed_columns
    sections: set[str] = set() if form is None else {*form.shape.types}
    private = private_names(project_settings.prepare, project_settings.publication.private_columns)
    if columns is not None:
        refuse_uncounted(named, texts, private, setting="columns")
    values, ledger = profile_of_frame(
        open_project(
            Path(),
            settings=project_settings,
            state=None if state is None else state_folder(state),
        ),
        frame,
        columns=tuple(
            name
            for name in named
            if columns is not None
            or (name not in texts | sections and private_name(name, private) is None)
        ),
        donated=arguments.donated_frame(None if form is None else form.shape),
        forced=new_draw,
        form=form,
    )
    return Profile(values, ledger, form)


def _form(fields: Mapping[str, Any]) -> TextForm:
    try:
        return TextForm.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        raise ParamsError(f"text: {problem['msg'].removeprefix('Value error, ')}") from None
