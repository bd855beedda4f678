"""The base class and the types of all sections of the settings."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args
from urllib.parse import unquote

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from typing_extensions import TypedDict  # pydantic needs this version before Python 3.12

from sugarbush.errors import ArgumentError

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class _NotInOutput:
    """Marks a field that does not affect a stage's output, such as a timeout or a device."""


NOT_IN_OUTPUT = _NotInOutput()


class _PublicTexts:
    """Marks a field with public texts, which may contain any URL."""


PUBLIC_TEXTS = _PublicTexts()

Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class _SectionType(ModelMetaclass):
    """Converts pydantic's error of several lines to one line, if Python code creates a section.

    The validation of params.yaml does not use `__call__`.
    """

    if not TYPE_CHECKING:  # type checkers read the arguments from the fields

        def __call__(cls, *arguments: Any, **named: Any) -> Any:
            try:
                return super().__call__(*arguments, **named)
            except ValidationError as error:
                problems = error.errors(include_input=False, include_url=False)
                names = [field.alias or name for name, field in cls.model_fields.items()]
                message = "; ".join(_format_problem(each, names, cls.__name__) for each in problems)
            raise ArgumentError(message)


def _format_problem(problem: Any, names: Sequence[str], owner: str) -> str:
    """Return one line that names the argument, without its value."""
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
        close = difflib.get_close_matches(name, names, n=1)
        meant = f"; did you mean {close[0]}?" if close else "."
        return f"{name}: is not an argument of {owner}{meant} Its arguments are {', '.join(names)}"
    message = problem["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "must be", 1)
    return f"{name}: {message}" if name else f"{owner}: {message}"


class Section(BaseModel, metaclass=_SectionType):
    """One section of params.yaml, frozen. Errors never show the value of a setting.

    Every field has a default. `sugarbush settings` prints the docstring under a field.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
        validate_default=True,  # a default of 512 becomes 512.0, like 512 in a file
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_secret(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if PUBLIC_TEXTS in field.metadata:
            return value
        kinds = _kinds(field.annotation)
        of_sections = any(isinstance(kind, type) and issubclass(kind, Section) for kind in kinds)
        # A section checks its own fields, so that the error names the field.
        if has_secret(value) and (isinstance(value, str) or not of_sections):
            raise ValueError(SECRET)
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _no_number_from_a_bool(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` and `false` for a number. pydantic would read `epsilon: true` as 1."""
        values = list(value.values()) if isinstance(value, dict) else value
        values = values if isinstance(values, list) else [values]
        if info.field_name is not None and any(isinstance(each, bool) for each in values):
            kinds = list(_kinds(cls.model_fields[info.field_name].annotation))
            takes_bool = any(kind is bool or isinstance(kind, bool) for kind in kinds)
            if not takes_bool and (int in kinds or float in kinds):
                raise ValueError("true and false are not numbers")
        return value

    def output_settings(self) -> dict[str, Any]:
        """Return the fields that affect a stage's output, as JSON values.

        Fields marked `Annotated[T, NOT_IN_OUTPUT]` are omitted. Cache keys and DVC use the result.
        """
        kept: dict[str, Any] = {}
        whole = self.model_dump(mode="json", by_alias=True)
        for name, field in type(self).model_fields.items():
            if any(isinstance(mark, _NotInOutput) for mark in field.metadata):
                continue
            value = getattr(self, name)
            key = field.alias or name
            kept[key] = value.output_settings() if isinstance(value, Section) else whole[key]
        return kept


SECRET = (
    "a URL must have no user, password or key, because settings are public. Set the credentials in "
    "the environment"
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(\S*)", re.IGNORECASE)
_LOGIN = re.compile(r"[^\s/@:]+:[^\s/@]+@[\w.-]+:\d+")  # an address without a scheme
_HOST_AND_PATH = re.compile(r"(\[[^]]*\]|[^:/]*)(:\d+)?(/[^:]*)?")
_QUERY_NAME = re.compile(r"[?&;#]([^=&;#]+)=")
_SECRET_NAME = re.compile(
    r"(?<![a-z])(sig|key|auth|pwd|pass|pw|sas|jwt|bearer|access)(?![a-z])|^code$"
    r"|token|passw|passphrase|secret|credential|signature|accesskey|apikey|authorization"
    r"|sharedkey|privatekey",
    re.IGNORECASE,
)


def has_secret(value: Any) -> bool:
    """Return whether a value contains a URL with a user, or with a key in its query. The value may
    be a list or a dict. The result is also true for a URL inside a longer text.

    >>> has_secret("s3://key:secret@bucket/a.csv"), has_secret(["https://host/a?sig=abc"])
    (True, True)
    >>> has_secret("https://host:8000/v1?api-version=2"), has_secret("Ask: who is @kim?")
    (False, False)
    """
    if isinstance(value, str):
        return bool(_LOGIN.fullmatch(value)) or any(map(_is_secret, _URL.findall(value)))
    if isinstance(value, Mapping):
        return any(has_secret(each) for pair in value.items() for each in pair)
    return isinstance(value, list | tuple | set | frozenset) and any(map(has_secret, value))


def _is_secret(rest: str) -> bool:
    """Return whether the part of a URL after `://` has a user or a key.

    A password may contain a slash. So after a colon that starts no port, any @ counts.
    """
    before, at, _ = rest.partition("@")
    has_user = bool(at) and ("/" not in before or not _HOST_AND_PATH.fullmatch(before))
    return has_user or any(map(_SECRET_NAME.search, map(unquote, _QUERY_NAME.findall(rest))))


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types in an annotation, such as int and None of `int | None`."""
    yield annotation
    for each in get_args(annotation):
        yield from _kinds(each)


def parse_sections(kinds: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Parse each section in `fields`. `kinds` maps the name of a section to its type."""
    if not kinds:
        return {}
    # A model of pydantic would not work, because a section may have the name of a model attribute.
    adapter = TypeAdapter(TypedDict("Sections", dict(kinds)))  # type: ignore[operator]
    return dict(adapter.validate_python(dict(fields)))


class Meaning(NamedTuple):
    """The meaning of a setting or a section, in one line."""

    name: str  # with dots between sections
    text: str
    is_section: bool


def meanings(section: Section, prefix: tuple[str, ...] = ()) -> Iterator[Meaning]:
    """Yield every section, followed by its settings, with dotted names."""
    for name, value in section:
        field = type(section).model_fields.get(name)
        here = (*prefix, field.alias or name if field else name)
        if isinstance(value, Section):
            text = inspect.cleandoc(type(value).__doc__ or "").partition("\n")[0]
            yield Meaning(".".join(here), text, True)
            yield from meanings(value, here)
        else:
            yield Meaning(".".join(here), _meaning(type(section), name), False)


def _meaning(section: type[Section], name: str) -> str:
    """Return a field's docstring, also if a subclass overrides the field without a docstring."""
    return next(
        (
            docstrings[name]
            for owner in section.__mro__
            if name in (docstrings := _docstrings(owner))
        ),
        "",
    )


@cache
def _docstrings(section: type) -> dict[str, str]:
    """Read the docstrings under the fields of a class. pydantic's `use_attribute_docstrings` reads
    them at every import, which takes a sixth of the time of a small stage."""
    if section is Section or not issubclass(section, Section):
        return {}
    try:
        source = inspect.getsource(section)
    except OSError:  # a class of an interactive session
        return {}
    (kind,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(kind, ast.ClassDef)
    return {
        ast.unparse(field.target): " ".join(str(after.value.value).split())
        for field, after in pairwise(kind.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }
