"""Names the extra of a missing package. The core needs no Prefect, DVC, Opacus, PEFT or faker."""

from __future__ import annotations

from importlib.util import find_spec

from sugarbush.errors import ParamsError

# The packages that some feature imports, by the extra that installs them, and the feature.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "flows": ("a project with stages and its weekly flow", ("dvc", "prefect")),
    "train": ("training a language model", ("opacus", "peft")),
    "redaction": ("the redactor", ("faker", "presidio_analyzer", "spacy")),
    "s3": ("data on S3", ("dvc_s3", "s3fs")),
    "xlsx": ("an xlsx file", ("openpyxl",)),
    "sql": ("a database", ("sqlalchemy", "psycopg")),
    "cluster": ("a cluster of workers", ("distributed",)),
    "gguf": ("a GGUF file", ("gguf", "accelerate", "openvino_genai")),
    "track": ("events for MLflow or OpenLineage", ("mlflow", "openlineage")),
    "smartnoise": ("the engine smartnoise", ("snsynth",)),
}


def require_extra(name: str, *packages: str) -> None:
    """Raise ParamsError if a package of the extra `name` is missing. No package is imported.

    Without `packages`, every package of the extra is needed.
    """
    for package in packages or EXTRAS[name][1]:
        if not _is_installed(package):
            raise ParamsError(_message(name, package))


def message_of(error: ImportError) -> str | None:
    """Return one line that names the extra of the missing package, or None for another error.

    >>> message_of(ModuleNotFoundError("No module named 'peft'", name="peft"))
    "training a language model needs the package peft. In a clone: pip install '.[train]'"
    """
    package = (error.name or "").partition(".")[0]
    for name, (_, packages) in EXTRAS.items():
        if package in packages and not _is_installed(package):
            return _message(name, package)
    return None


def _message(name: str, package: str) -> str:
    return f"{EXTRAS[name][0]} needs the package {package}. In a clone: pip install '.[{name}]'"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a test hides the package: sys.modules[package] is None
        return False
