"""A webhook in a process of its own, for tests that kill it.

    webhook_process.py KUBECONFIG MODE CONFIG HTTP

CONFIG and HTTP are the sections `webhook` and `http` of the configuration, as JSON.
"""

import asyncio
import signal
import sys
from pathlib import Path

from stowplan.kube.api.access import from_kubeconfig
from stowplan.kube.api.client import ApiClient
from stowplan.serve.config import HttpConfig
from stowplan.serve.logs import configure_logs
from stowplan.serve.scheduler.interface import Mode
from stowplan.serve.webhook.server import WebhookServer
from stowplan.serve.webhook.settings import WebhookConfig


async def serve(kubeconfig: str, mode: str, config: str, http: str) -> None:
    """Serve until a signal ends it."""
    async with ApiClient(from_kubeconfig([Path(kubeconfig)])) as client:
        server = WebhookServer(
            WebhookConfig.model_validate_json(config),
            client,
            mode=Mode(mode),
            http=HttpConfig.model_validate_json(http),
        )
        running = asyncio.create_task(server.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait({running})
        if not running.cancelled():
            running.result()


if __name__ == "__main__":
    configure_logs()
    asyncio.run(serve(*sys.argv[1:]))
