"""Serves the form to this machine alone, and answers its requests."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sugarbush.app.forms import Form, messages_by_field
from sugarbush.app.jobs import BusyError, Job, JobState
from sugarbush.app.step import App, Question, Step
from sugarbush.app.step_data import DataStep, PrivacyStep, ProfileStep
from sugarbush.app.step_run import PublishStep, ReportStep, RunStep
from sugarbush.app.step_texts import EstimateStep, GeneratorStep, SchemaStep
from sugarbush.errors import ParamsError, SugarbushError
from sugarbush.loopback import LoopbackHandler, LoopbackServer
from sugarbush.paths import Roots
from sugarbush.report.templating import inlined
from sugarbush.run.error_report import format_error

STEPS: Final[tuple[Step, ...]] = (
    DataStep(), PrivacyStep(), ProfileStep(), SchemaStep(), GeneratorStep(), EstimateStep(),
    RunStep(), ReportStep(), PublishStep(),
)  # fmt: skip
_BY_NAME: Final = {step.name: step for step in STEPS}
_LOADER = PackageLoader("sugarbush.app", "templates")
_TEMPLATES = Environment(
    loader=_LOADER, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_STATUS = {
    JobState.RUNNING: "running",
    JobState.FINISHED: "finished",
    JobState.POOR: "finished, and the release is poor",
    JobState.REFUSED: "finished, and release.accept_if refuses the release",
    JobState.FAILED: "stopped with an error. The last lines say why",
    JobState.STOPPED: "stopped. Another start continues from the finished results",
}
_WITH_A_RELEASE = (JobState.FINISHED, JobState.POOR, JobState.REFUSED)
_KINDS = {
    ".html": "text/html",
    ".md": "text/plain",
    ".json": "application/json",
}
# A page of the report has an origin of its own. So its script cannot read or send a form.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class AppServer(LoopbackServer):
    """Serves the form for the project in `base`, until `shutdown`.

    `folder` is a folder that only the user can read, for the file that opens the page.
    """

    name: ClassVar[str] = "app"

    def __init__(self, base: Path, *, folder: Path, port: int = 0) -> None:
        super().__init__(_Handler, folder=folder, port=port)
        self.app = App(base=base)

    def server_close(self) -> None:
        self.app.jobs.stop()
        super().server_close()


class _Handler(LoopbackHandler):
    server: AppServer
    body_type: ClassVar[str] = "application/x-www-form-urlencoded"
    policy: ClassVar[str] = (
        "default-src 'none'; img-src data:; script-src 'self'; style-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )

    def get(self, path: str) -> None:
        path = unquote(urlsplit(path).path)
        app = self.server.app
        if path == "":
            self._go("run" if app.jobs.is_running else "data")
        elif path == "app.js":
            script, _, _ = _LOADER.get_source(_TEMPLATES, "app.js")
            self.answer(script.encode(), kind="text/javascript")
        elif path == "job.json":
            self.answer(json.dumps(_job_fields(app.jobs.last)).encode(), kind="application/json")
        elif path.startswith("files/"):
            self._send_file(path.removeprefix("files/"))
        elif (step := _BY_NAME.get(path)) is None:
            self.refuse(HTTPStatus.NOT_FOUND)
        elif step.needs_project and not app.exists:
            self._go("data")
        else:
            self._show(step)

    def post(self, path: str, body: bytes) -> None:
        app = self.server.app
        if path == "stop":
            app.jobs.stop()
            self._go(app.jobs.last.step if app.jobs.last is not None else "run")
            return
        step = _BY_NAME.get(path)
        if step is None or (step.needs_project and not app.exists):
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        form = None
        try:
            form = Form.of_body(body)
            with self.server.lock:
                app.jobs.require_none()  # a job reads the settings
                result = step.submit(app, form)
        except Exception as error:  # the message of an unknown error is hidden
            self._show(step, form, error=error)
            return
        if isinstance(result, Question):
            self._page("question.html.jinja", step, question=result)
        elif result is None:
            self._show(step, form)
        else:
            self._go(result)

    def _show(
        self, step: Step, form: Form | None = None, *, error: Exception | None = None
    ) -> None:
        """Show a step, with the message of an error beside its field."""
        message, status = _message_and_status(error)
        fields = form.names if form is not None else ()
        try:
            context = step.context(self.server.app, form)
        except Exception as problem:  # for example, params.yaml is broken
            reason, status = _message_and_status(problem)
            lines = dict.fromkeys([*message.splitlines(), *reason.splitlines()])
            self._page("broken.html.jinja", step, status=status, message="\n".join(lines))
            return
        self._page(
            f"{step.name}.html.jinja", step, status=status, message=message, fields=fields,
            **context,
        )  # fmt: skip

    def _page(
        self,
        template: str,
        step: Step,
        *,
        status: HTTPStatus = HTTPStatus.OK,
        message: str = "",
        fields: tuple[str, ...] = (),
        **context: Any,
    ) -> None:
        app = self.server.app
        page = _TEMPLATES.get_template(template).render(
            css=inlined()["css"] + Markup(_LOADER.get_source(_TEMPLATES, "app.css")[0]),
            steps=STEPS,
            step=step,
            exists=app.exists,
            folder=app.base.absolute().name or str(app.base.absolute()),
            errors=_Errors(messages_by_field(message, fields)),
            job=_job_fields(app.jobs.last),
            busy=app.jobs.is_running,
            **context,
        )
        self.answer(page.encode(), kind="text/html", status=status)

    def _go(self, step: str) -> None:
        self.answer(
            b"",
            kind="text/plain",
            status=HTTPStatus.SEE_OTHER,
            headers={"Location": f"/{self.server.token}/{step}"},
        )

    def _send_file(self, name: str) -> None:
        """Send a file of the report. Of the internal report, only its pages are sent."""
        root_name, _, rest = name.partition("/")
        roots = Roots(self.server.app.base)
        root = {"public": roots.published, "internal": roots.internal}.get(root_name)
        if root is None or "\0" in rest:
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        path = (root / rest).resolve()
        inside = path.is_relative_to(root.resolve()) and path.is_file()
        if not inside or (root_name == "internal" and path.suffix != ".html"):
            self.refuse(HTTPStatus.NOT_FOUND)
            return
        kind = _KINDS.get(path.suffix)
        headers = {} if kind else {"Content-Disposition": "attachment"}
        self.answer(
            path.read_bytes(), kind=kind or "application/octet-stream", policy=_REPORT_POLICY,
            headers=headers,
        )  # fmt: skip


def _message_and_status(error: Exception | None) -> tuple[str, HTTPStatus]:
    """Return the message that the terminal would show, and the status of the page."""
    if error is None:
        return "", HTTPStatus.OK
    message, _ = format_error(error)
    if isinstance(error, BusyError):
        return message, HTTPStatus.CONFLICT
    if isinstance(error, SugarbushError):
        return message, HTTPStatus.UNPROCESSABLE_ENTITY
    return message, HTTPStatus.INTERNAL_SERVER_ERROR


class _Errors(dict[str, str]):
    """The messages by field. A field without a message has an empty one."""

    def __missing__(self, name: str) -> str:
        return ""


def _job_fields(job: Job | None) -> Mapping[str, Any]:
    """Return what the page shows about the last job."""
    if job is None:
        return {"state": "", "step": "", "title": "", "lines": "", "done": 0, "total": 0,
                "charged": "", "status": ""}  # fmt: skip
    try:
        charged = job.charges()
    except SugarbushError as error:
        charged = str(error)
    status = _STATUS[job.state]
    if job.state is JobState.RUNNING and job.total:
        status = f"running, stage {job.done + 1} of {job.total}"
    return {
        "state": job.state.value,
        "step": job.step,
        "title": job.title,
        "lines": "\n".join(job.lines),
        "done": job.total if job.state in _WITH_A_RELEASE else job.done,
        "total": job.total,
        "charged": charged,
        "status": f"sugarbush {job.title}: {status}",
    }


def serve(base: Path, *, open_page: bool) -> None:
    """Serve the form until Ctrl-C, and print its address. A running job is stopped at the end.

    Raises ParamsError if `base` is a file.
    """
    if base.exists() and not base.is_dir():
        raise ParamsError(f"{base}: is not a folder")
    with tempfile.TemporaryDirectory() as folder, AppServer(base, folder=Path(folder)) as server:
        print(f"Open {server.url}", flush=True)
        print("Press Ctrl-C to end it. A run that has not ended is then stopped.", flush=True)
        if open_page:
            server.open_in_browser()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)
