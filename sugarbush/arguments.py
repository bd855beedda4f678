"""Checks arguments of the Python API, and names arguments in its errors.

The API runs the code of the pipeline. The messages of the pipeline name settings of params.yaml.
`names_arguments` replaces each setting by its argument, such as `prepare.text_column` by `text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any, ParamSpec, Protocol, TypeGuard, TypeVar

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel

from sugarbush.data.cells import cells_of, is_half
from sugarbush.errors import InputError, ParamsError, SugarbushError
from sugarbush.extras import message_of

P = ParamSpec("P")
R = TypeVar("R")

_ARGUMENTS = {
    "prepare.file": "corpus",
    "prepare.schema": "schema",
    "prepare.donated": "donated",
    "prepare.text_column": "text",
    "prepare.id_column": "record_id",
    "prepare.user_column": "user",
    "release.texts": "texts",
    "generator.provider": "generator",
}
_PRIVACY = ("epsilon", "delta", "cap", "dataset")  # arguments of functions without `privacy`
_CLASSES = {
    "privacy": "sb.Privacy",
    "generator.openai": "sb.OpenAI",
    "generator.huggingface": "sb.HuggingFace",
    "generator.pool": "sb.Pool",
    "generator.simulator": "sb.Simulator",
    "methods.mosaic": "sb.Mosaic",
    "methods.maple": "sb.Maple",
    "methods.augpe": "sb.AugPE",
    "methods.public": "sb.Public",
    "methods.dpft": "sb.DPFT",
    "methods.crt": "sb.CRT",
    "methods.nonprivate": "sb.NonPrivatePE",
}
_COMMANDS = {"sugarbush run --yes": "synthesize(..., accept_poor=True)"}
_CONSTANTS = {"null": "None", "true": "True", "false": "False"}
_FRAME = re.compile(r" \(setting (frame|corpus)\)")
# An unknown setting keeps its prefix, because the argument `settings` contains it.
_PREFIX = re.compile(r"^(?:params\.yaml|settings): (?!(?!sb\.)\w+\.\w)", re.MULTILINE)


def names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Change the errors of a function of the API, so that they name arguments of Python.

    >>> @names_arguments
    ... def prepare(): raise ParamsError("params.yaml: prepare.user_column is set")
    >>> prepare()
    Traceback (most recent call last):
    sugarbush.errors.ParamsError: user is set
    """

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except ImportError as error:
            if (message := message_of(error)) is None:
                raise
            raise ParamsError(message) from None
        except SugarbushError as error:
            parameters = function.__annotations__
            direct = {f"privacy.{name}": name for name in _PRIVACY if name in parameters}
            error.args = (in_python(str(error), direct), *error.args[1:])
            raise

    return call


def in_python(message: str, direct: Mapping[str, str] | None = None) -> str:
    """Replace settings in a message by arguments. `direct` contains further arguments.

    >>> in_python("Set `privacy.unit: user` or `prepare.user_column: null`.")
    'Set `sb.Privacy(unit="user")` or `user=None`.'
    >>> in_python("Fix it, or set prepare.bad_rows: drop.")
    'Fix it, or set settings={"prepare": {"bad_rows": "drop"}}.'
    >>> in_python("set `privacy.different_from: [letters]`")
    'set `sb.Privacy(different_from=["letters"])`'
    """
    arguments = {**_ARGUMENTS, **(direct or {})}

    def replaced(match: re.Match[str]) -> str:
        section, _, rest = match["setting"].partition(".")
        if rest.partition(".")[0] not in _sections()[section]:
            return match[0]  # such as release.json
        return match["before"] + _argument(match["setting"], match["value"], arguments)

    for pattern in _patterns():
        message = pattern.sub(replaced, message)
    for command, call in _COMMANDS.items():
        message = message.replace(command, call)
    message = _FRAME.sub("", _PREFIX.sub("", message))
    if "the frame" in message:
        message = message.replace("Fix the file", "Fix the frame")
    message = message.replace("Input should be", "must be").replace("(setting ", "(argument ")
    return "\n".join(dict.fromkeys(message.split("\n")))


def _argument(setting: str, value: str | None, arguments: Mapping[str, str]) -> str:
    given = None if value is None else _literal(value)
    if setting in arguments:
        return arguments[setting] if given is None else f"{arguments[setting]}={given}"
    for section, owner in _CLASSES.items():
        if setting.startswith(f"{section}."):
            name = setting.removeprefix(f"{section}.")
            return f"{owner}({name}{'' if given is None else f'={given}'})"
    *sections, last = setting.split(".")
    start = "".join(f'{{"{section}": ' for section in sections)
    end = f'{{"{last}": {"..." if given is None else given}}}' + "}" * len(sections)
    return f"settings={start}{end}"


def _literal(value: str) -> str:
    if value in _CONSTANTS:
        return _CONSTANTS[value]
    if value.startswith("["):
        return f"[{_literal(value[1:-1])}]"
    return value if re.fullmatch(r"-?\d[\d.e-]*|'.*'|\".*\"", value) else f'"{value}"'


@cache
def _sections() -> dict[str, frozenset[str]]:
    """Return the names of the settings of each section."""
    from sugarbush.run.settings import ProjectSettings

    names_by_section = {}
    for name, field in ProjectSettings.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names = (setting.alias or n for n, setting in kind.model_fields.items())
            names_by_section[name] = frozenset(names)
    more = {section.partition(".") for section in _CLASSES}
    for section, _, name in more:
        names_by_section[section] = names_by_section.get(section, frozenset()) | (
            {name} if name else set()
        )
    return names_by_section


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Match a setting with its value, in backticks or after "set". Then match all other settings,
    also with a value after "="."""
    setting = rf"(?P<setting>(?:{'|'.join(_sections())})(?:\.[a-z_]\w*)+)"
    return (
        re.compile(rf"(?P<before>`|[Ss]et ){setting}: (?P<value>\[\w*\]|[\w.-]*\w)"),
        re.compile(rf"(?P<before>(?<![\w./-])){setting}(?:=(?P<value>[^\s,;`)]*[^\s,;`).]))?"),
    )


def require_kind(name: str, value: object, kind: type, example: str) -> None:
    """Raise ParamsError if `value` is not of type `kind`."""
    if not isinstance(value, kind):
        raise ParamsError(f"{name}: expected an object such as {example}, got {type_name(value)}")


class ArrowFrame(Protocol):
    """A frame with the Arrow PyCapsule interface, such as a DataFrame of polars."""

    @property
    def columns(self) -> Any: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def is_frame(value: object) -> TypeGuard[pd.DataFrame | ArrowFrame]:
    """Return whether a value is a frame of pandas, or another frame that Arrow can read."""
    has_arrow = hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns")
    return isinstance(value, pd.DataFrame) or has_arrow


def pandas_frame(name: str, frame: object) -> pd.DataFrame:
    """Return a frame as a frame of pandas. Fields of structs become columns such as `ticket.body`.

    Raises ParamsError for a value that is no frame, and InputError for a value that pandas cannot
    contain. The message never quotes a value.
    """
    if isinstance(frame, pd.DataFrame):
        return frame
    if not is_frame(frame):
        collect = ". Call its method collect() first" if hasattr(frame, "collect") else ""
        raise ParamsError(
            f"{name}: expected a DataFrame of pandas or polars, got {type_name(frame)}{collect}"
        )
    try:
        table = pa.table(frame)
        while any(pa.types.is_struct(kind) and kind.num_fields for kind in table.schema.types):
            table = table.flatten()
        # With floats in place of integers, a large id would be rounded.
        converted: pd.DataFrame = table.to_pandas(integer_object_nulls=True)
        for place, kind in enumerate(converted.dtypes):
            # A missing text or category would be NaN, as in numbers.
            if isinstance(kind, pd.StringDtype | pd.CategoricalDtype):
                cells = cells_of(converted.iloc[:, place])
                column: Any = pd.Series(cells, index=converted.index, dtype=object)
                converted.isetitem(place, column)
    except (pa.ArrowException, ValueError, OverflowError):
        raise InputError(
            f"{name}: a column cannot be converted to pandas. Convert dates and numbers to texts"
        ) from None
    return converted


def require_list(name: str, texts: object) -> tuple[Any, ...]:
    """Return the items of a list. Raises InputError for a single text, a mapping and a frame.

    Each character of a single text, or each column name of a frame, would count as a text.
    """
    if isinstance(texts, str | Mapping | pd.DataFrame) or not isinstance(texts, Iterable):
        raise InputError(f"{name}: expected a list of texts, got {type_name(texts)}")
    return tuple(texts)


def require_texts(name: str, texts: object) -> tuple[str, ...]:
    """Return a list of texts. Raises InputError that names the item, and never quotes it."""
    every = require_list(name, texts)
    for index, text in enumerate(every):
        if not isinstance(text, str):
            raise InputError(f"{name}: item {index} is not a text. Remove missing values")
        if is_half(text):
            raise InputError(f"{name}: item {index} has half a character (a lone surrogate)")
    return every


def type_name(value: object) -> str:
    """Return the name of the type of `value`, or say which class `value` is."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
