"""What Argo's controller demands, from its ConfigMap."""

import asyncio
from typing import Any

import pytest

from stowplan.errors import InvalidInput
from stowplan.kube.api.client import ApiClient
from stowplan.kube.plan import Referencing
from stowplan.serve.webhook.controller import FollowedController, read_controller_map
from stowplan.serve.webhook.settings import ControllerConfig
from tests.unit.kube_api.server import FakeServer, status
from tests.unit.webhook.reviews import until

NOTHING = ControllerConfig()
FIELDS = {
    "workflowRestrictions": "templateReferencing: Strict\n",
    "workflowDefaults": "metadata: {labels: {a: b}}\nspec: {entrypoint: main}\n",
    "mainContainer": '{"resources": {"requests": {"cpu": "1"}}}',
    "executor": "image: x\nresources: {requests: {cpu: 10m}}\n",
    "instanceID": "team-a",
    "links": "[{name: x}]",
    "parallelism": "10",
}


def indented(text: str) -> str:
    return "".join(f"\n  {line}" for line in text.splitlines())


@pytest.mark.parametrize("form", ["keys", "whole"])
def test_both_forms_of_the_map_are_read(form: str) -> None:
    data = FIELDS
    if form == "whole":
        data = {"config": "\n".join(f"{key}:{indented(text)}" for key, text in FIELDS.items())}
    found = read_controller_map(data, NOTHING)
    assert found.template_referencing is Referencing.STRICT
    assert found.workflow_defaults == {"entrypoint": "main"}
    assert found.main_container == {"resources": {"requests": {"cpu": "1"}}}
    assert found.executor_resources == {"requests": {"cpu": "10m"}}
    assert found.instance_id == "team-a"


def test_an_empty_map_restricts_nothing() -> None:
    for data in ({}, {"config": ""}, {"workflowRestrictions": "mustUseReference: x"}, {"executor": ""}):
        assert read_controller_map(data, NOTHING).template_referencing is Referencing.NONE


def test_what_is_set_goes_before_the_map() -> None:
    given = ControllerConfig(template_referencing=Referencing.SECURE, allowed_fields=("schedulerName",))
    found = read_controller_map(FIELDS, given)
    assert found.template_referencing is Referencing.SECURE
    assert found.allowed_fields == ("schedulerName",)
    assert found.instance_id == "team-a"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"workflowRestrictions": "{templateReferencing: Loose}"}, "template_referencing is 'loose'"),
        ({"executor": "{"}, "executor is no YAML"),
        ({"instanceID": "[1]"}, "instance_id is"),
    ],
)
def test_what_cannot_be_read_is_named(data: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_controller_map(data, NOTHING)


class Followed:
    """A controller that is followed, and what was told of it."""

    def __init__(self, client: ApiClient, **given: Any) -> None:  # noqa: ANN401 (whatever the settings take)
        self.told: list[str] = []
        config = ControllerConfig(config_map="n/argo", **given)
        self.controller = FollowedController(
            client, config, lambda says: self.told.append(str(says.template_referencing))
        )

    async def until_told(self, *words: str) -> None:
        async def look() -> bool:
            return self.told == list(words)

        await until(look)

    async def until_error(self, words: str) -> None:
        async def look() -> bool:
            return words in self.controller.error if words else not self.controller.error

        await until(look)


def test_changes_are_followed_and_faults_leave_all_as_it_was() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            await server.put("argo", data={"workflowRestrictions": "templateReferencing: Strict"})
            followed = Followed(client)
            running = asyncio.create_task(followed.controller.run())
            await followed.until_told("None", "strict")
            assert followed.controller.is_settled
            await server.put("argo", data={"workflowRestrictions": "templateReferencing: Loose"})
            await followed.until_error("ConfigMap n/argo: template_referencing is 'loose'")
            await server.put("argo", data={"workflowRestrictions": "templateReferencing: Secure"})
            await followed.until_told("None", "strict", "secure")
            assert followed.controller.error == ""
            await server.remove("argo")
            await followed.until_told("None", "strict", "secure", "None")
            assert "there is no ConfigMap n/argo" in followed.controller.error
            running.cancel()

    asyncio.run(story())


def test_a_right_that_is_missing_is_told_and_nothing_is_settled() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            server.script.extend(status(403, "Forbidden", "configmaps is forbidden") for _ in range(500))
            followed = Followed(client)
            running = asyncio.create_task(followed.controller.run())
            await followed.until_error("grant the verb on the resource")
            assert not followed.controller.is_settled
            running.cancel()

    asyncio.run(story())


def test_without_a_map_what_is_set_holds() -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            told: list[ControllerConfig] = []
            given = ControllerConfig(config_map="", template_referencing=Referencing.STRICT)
            controller = FollowedController(client, given, told.append)
            await controller.run()
            assert (told, controller.is_settled, controller.error) == ([given], True, "")
            assert server.requests == []

    asyncio.run(story())


@pytest.mark.parametrize("name", ["argo", "/x", "x/"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    async def story() -> None:
        async with FakeServer() as server, ApiClient(server.access) as client:
            with pytest.raises(InvalidInput, match="write NAMESPACE/NAME"):
                FollowedController(client, ControllerConfig(config_map=name), lambda _: None)

    asyncio.run(story())
