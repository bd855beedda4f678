"""Makes Prefect call a webhook when a run of the pipeline fails: `python -m flows.notify`.

This program reads the URL of the webhook from the terminal or from stdin. A URL may contain a
token, and other users of the machine can read command-line arguments. Run the program once for a
Prefect server, and again to change the URL.

The program writes a webhook block and two automations. The first automation calls the webhook with
JSON: the run, its state and the state's message. All three are public. The second automation marks
a run without heartbeats as crashed, because its machine or its worker died.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from getpass import getpass

from prefect.automations import Automation
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture

FAILED, LOST = "sugarbush-failed", "sugarbush-lost"
SILENCE = timedelta(minutes=10)  # three heartbeats
FLOW = {"prefect.resource.role": "flow", "prefect.resource.name": "sugarbush"}
ENDS = ("Completed", "Failed", "Crashed", "Cancelled")
PAYLOAD = """\
{"run": {{ flow_run.name | tojson }}, "state": {{ flow_run.state.name | tojson }},
 "message": {{ flow_run.state.message | tojson }}}
"""


def notify(url: str) -> None:
    """Write the block and the automations. They replace the block and the automations of an earlier
    call."""
    block = Webhook(url=url).save(FAILED, overwrite=True)
    with get_client(sync_client=True) as client:
        for name in (FAILED, LOST):
            for old in client.read_automations_by_name(name):
                client.delete_automation(old.id)
    Automation(
        name=FAILED,
        trigger=EventTrigger(expect=_events("Failed", "Crashed"), match_related=FLOW),
        actions=[CallWebhook(block_document_id=block, payload=PAYLOAD)],
    ).create()
    Automation(
        name=LOST,
        trigger=EventTrigger(
            after=_events("heartbeat"),
            expect=_events("heartbeat", *ENDS),
            match_related=FLOW,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            within=SILENCE,
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, name="Crashed", message="No heartbeat for ten minutes."
            )
        ],
    ).create()


def _events(*names: str) -> set[str]:
    return {f"prefect.flow-run.{name}" for name in names}


if __name__ == "__main__":
    notify(getpass("URL: ") if sys.stdin.isatty() else sys.stdin.readline().strip())
