"""Uploads a published folder to a dataset hub (hf://) or to another file system (such as s3://).

Nothing but the finished folder is sent. Credentials come from the environment or from the login of
the service's own program, and never from an address or a setting. Messages of a service are not
shown, because they may quote credentials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from sugarbush.data.remote import require_packages_of_url
from sugarbush.errors import FailureError, ParamsError, UsageError
from sugarbush.settings import SECRET, has_secret

_HUB = re.compile(r"hf://([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://.+")
_LAST = ("metadata.json", "README.md")  # a reader who finds them finds all other files
_AGAIN = "The folder on this machine is complete: run the same command again to resume"


class UploadTarget(Protocol):
    """A place for a published folder. `check` sends no file, and `upload` sends all of them."""

    def check(self) -> None:
        """Raise an error if the place is not empty, or if the account may not write to it."""

    def upload(self, folder: Path) -> str:
        """Upload all files of `folder`, and return the address to open.

        Raises FailureError. Then no reader sees a part of the folder.
        """


def open_target(address: str) -> UploadTarget:
    """Return the place at an address, such as hf://org/name or s3://bucket/folder.

    Raises ParamsError for another address, or for an address with a password.
    """
    if has_secret(address):
        raise ParamsError(f"--to: {SECRET}")
    if address.startswith("hf://"):
        if (name := _HUB.fullmatch(address)) is None:
            raise ParamsError("--to: a dataset hub needs an address such as hf://org/name")
        return HubTarget(owner=name[1], name=name[2])
    if not _URL.fullmatch(address):
        raise ParamsError(
            "--to: expected an address, such as hf://org/name or s3://bucket/folder. To publish in "
            "a folder of this machine, leave out --to"
        )
    return FileSystemTarget(address.rstrip("/"))


@dataclass(frozen=True, kw_only=True)
class HubTarget:
    """A dataset of the Hugging Face Hub. The account is that of HF_TOKEN or of `hf auth login`.

    A new dataset is private. Its owner makes it public on the hub after a last look. One commit
    contains all files, so an upload that breaks shows no file.
    """

    owner: str
    name: str

    @property
    def repository(self) -> str:
        return f"{self.owner}/{self.name}"

    def check(self) -> None:
        from huggingface_hub.errors import RepositoryNotFoundError

        with self._calling("check the account"):
            account = self._api.whoami()
        names = {account["name"], *(each["name"] for each in account.get("orgs", ()))}
        if self.owner not in names:
            raise ParamsError(
                f"hf://{self.repository}: this account may not write to {self.owner}, only to "
                f"{', '.join(sorted(names))}. Use another name or another account"
            )
        with self._calling("list the files"):
            try:
                files = self._api.list_repo_files(self.repository, repo_type="dataset")
            except RepositoryNotFoundError:
                return
        if set(files) - {".gitattributes"}:
            raise ParamsError(f"hf://{self.repository}: is not empty. Choose another name")

    def upload(self, folder: Path) -> str:
        with self._calling("upload the files"), _without_progress_bars():
            self._api.create_repo(self.repository, repo_type="dataset", private=True, exist_ok=True)
            self._api.upload_folder(
                repo_id=self.repository,
                repo_type="dataset",
                folder_path=folder,
                commit_message="Publish with Sugarbush",
            )
        return f"{self._api.endpoint}/datasets/{self.repository}"

    @cached_property
    def _api(self) -> Any:
        from huggingface_hub import HfApi

        return HfApi(library_name="sugarbush")

    @contextmanager
    def _calling(self, action: str) -> Iterator[None]:
        """Convert any error of a block to a FailureError without the hub's words."""
        from huggingface_hub.errors import (
            LocalTokenNotFoundError,
            OfflineModeIsEnabled,
            RepositoryNotFoundError,
        )

        try:
            yield
        except RepositoryNotFoundError:
            raise FailureError(self._message(action, "the dataset does not exist")) from None
        except LocalTokenNotFoundError:
            raise ParamsError(
                f"hf://{self.repository}: no account. Set HF_TOKEN, or run `hf auth login`"
            ) from None
        except OfflineModeIsEnabled:
            raise ParamsError(
                f"hf://{self.repository}: HF_HUB_OFFLINE is set, so nothing can be sent"
            ) from None
        except Exception as error:
            status = _status(error)
            reason = f"HTTP status {status}" if status else type(error).__name__
            if status in (401, 403):
                reason += ": the account has no right to write there"
            raise FailureError(self._message(action, reason)) from None

    def _message(self, action: str, reason: str) -> str:
        return f"hf://{self.repository}: the hub did not {action} ({reason})"


def _status(error: BaseException | None) -> int | None:
    """Return the HTTP status of an error or of its cause, or None."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is not None:
            return int(status)
        error = error.__cause__
    return None


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


@dataclass(frozen=True)
class FileSystemTarget:
    """A folder of another file system, by fsspec. Credentials come from the environment.

    An upload that breaks removes the files that it wrote.
    """

    url: str

    def check(self) -> None:
        with self._calling("be listed"):
            system = self._system
            names = system.find(self.url) if system.exists(self.url) else []
        if names:
            raise ParamsError(f"{self.url}: is not empty. Choose another folder")

    def upload(self, folder: Path) -> str:
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        paths.sort(key=lambda path: path.name in _LAST)
        written: list[str] = []
        with self._calling("be written"):
            try:
                for path in paths:
                    target = f"{self.url}/{path.relative_to(folder).as_posix()}"
                    self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
                    written.append(target)
                    self._system.put_file(str(path), target)
            except BaseException:
                for target in written:
                    with suppress(Exception):  # the first error is reported
                        self._system.rm_file(target)
                raise
        return self.url

    @cached_property
    def _system(self) -> Any:
        import fsspec

        require_packages_of_url(self.url)
        return fsspec.filesystem(self.url.partition("://")[0], use_listings_cache=False)

    @contextmanager
    def _calling(self, action: str) -> Iterator[None]:
        """Convert any error of a block to a FailureError without the service's words."""
        try:
            yield
        except ImportError as error:
            raise ParamsError(
                f"{self.url}: needs the package {error.name or 'of its file system'}"
            ) from None
        except UsageError:  # a missing extra
            raise
        except Exception as error:
            raise FailureError(
                f"{self.url}: cannot {action} ({type(error).__name__}). Check the address and the "
                "credentials in the environment"
            ) from None


def checked_target(address: str | None) -> UploadTarget | None:
    """Open and check the place at an address, or return None without an address."""
    target = None if address is None else open_target(address)
    if target is not None:
        target.check()
    return target


def upload(target: UploadTarget, folder: Path) -> str:
    """Upload a finished folder, and return its address. A failure says how to resume."""
    try:
        return target.upload(folder)
    except FailureError as error:
        raise FailureError(f"{error}. {_AGAIN}") from None
