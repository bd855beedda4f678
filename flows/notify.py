"""Call a webhook when a run of the pipeline fails: `python -m flows.notify URL`.

Run it once for a Prefect server, and again to change the URL. It writes a webhook block and an
automation. The request is JSON: the run, its state and the state's message, which are public.
"""

from __future__ import annotations

import sys

from prefect.automations import Automation
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.events.actions import CallWebhook
from prefect.events.schemas.automations import EventTrigger

NAME = "sugarbush-failed"
PAYLOAD = """\
{"run": {{ flow_run.name | tojson }}, "state": {{ flow_run.state.name | tojson }},
 "message": {{ flow_run.state.message | tojson }}}
"""


def notify(url: str) -> None:
    """Write the block and the automation, in place of earlier ones."""
    block = Webhook(url=url).save(NAME, overwrite=True)
    with get_client(sync_client=True) as client:
        for old in client.read_automations_by_name(NAME):
            client.delete_automation(old.id)
    Automation(
        name=NAME,
        trigger=EventTrigger(
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": "sugarbush"},
        ),
        actions=[CallWebhook(block_document_id=block, payload=PAYLOAD)],
    ).create()


if __name__ == "__main__":
    notify(sys.argv[1])
