"""Templates that are watched: at hand a moment after they came, and unknown rather than wrong."""

import asyncio
from typing import Any

from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import ReflectorState
from stowplan.kube.plan import PlanOptions
from stowplan.serve.webhook.admission import Admission, Result
from stowplan.serve.webhook.templates import WatchedTemplates
from tests.unit.argo.cases import container, dag, workflow
from tests.unit.kube_api.server import FakeServer, status
from tests.unit.webhook.reviews import mutated, until, validated

SPEC: dict[str, Any] = {"entrypoint": "leaf", "templates": [container("leaf")]}
BORROWER = workflow(dag("main", {"name": "a", "templateRef": {"name": "lib", "template": "leaf"}}))
BORROWER["metadata"]["namespace"] = "n"


def test_a_template_is_known_while_it_is_there_and_can_be_read() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            templates = WatchedTemplates(client)
            admission = Admission(PlanOptions(), source=templates)
            running = asyncio.create_task(templates.run())

            async def is_known() -> bool:
                return templates.is_settled and templates.workflow_template("n", "lib") is not None

            async def is_unknown() -> bool:
                return templates.is_settled and templates.workflow_template("n", "lib") is None

            await until(is_unknown)
            await server.put("lib", spec=SPEC)
            await until(is_known)
            found = templates.workflow_template("n", "lib")
            assert found is not None
            assert (found.kind, found.name, list(found.templates())) == ("WorkflowTemplate", "lib", ["leaf"])
            assert templates.workflow_template("elsewhere", "lib") is None
            # Malformed: its own author's to mend; who refers to it is neither refused nor stopped.
            await server.put("lib", spec={"templates": [{"name": False}]})
            await until(is_unknown)
            assert validated(admission, BORROWER)[0] is Result.VALID
            assert mutated(admission, BORROWER)[0] is Result.PLANNED
            await server.put("lib", spec=SPEC)
            await until(is_known)
            await server.remove("lib")
            await until(is_unknown)
            running.cancel()

    asyncio.run(story())


def test_where_argo_is_not_installed_nothing_is_waited_for() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            server.script.extend(status(404, "NotFound", "no such resource") for _ in range(500))
            templates = WatchedTemplates(client)
            running = asyncio.create_task(templates.run())

            async def is_settled() -> bool:
                return templates.is_settled

            await until(is_settled)
            assert {health.state for health in templates.health.values()} == {ReflectorState.ABSENT}
            assert templates.cluster_workflow_template("lib") is None
            running.cancel()

    asyncio.run(story())
