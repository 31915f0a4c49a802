"""An API server of its own for tests that kill it: etcd and kube-apiserver, without controllers or nodes."""

import asyncio
import dataclasses
import itertools
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stowplan.kube.api.access import Access, from_kubeconfig
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.resources import NAMESPACES, Resource
from testbed import control_plane, etcd, keeper, network, site, sweep
from testbed.control_plane import API_PORT, ControlPlane
from testbed.daemons import Daemons

API_SERVER = "kube-apiserver"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
WIDGETS = Resource("stowplan.test", "v1", "widgets", "Widget")

Json = dict[str, Any]


class Plane:
    """A control plane whose API server can be killed and started again."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._numbers = itertools.count(1)
        self._commands = {name: plane.daemons.running[name].command for name in (API_SERVER, "etcd")}

    @property
    def access(self) -> Access:
        """The administrator's."""
        return from_kubeconfig([self.plane.site.kubeconfig])

    @property
    def target(self) -> tuple[str, int]:
        """Where a proxy finds the API server."""
        return self.plane.site.hub_address, API_PORT

    def through(self, address: str) -> Access:
        """The administrator's access by way of a proxy."""
        return dataclasses.replace(self.access, server=f"https://{address}")

    def kill(self, name: str = API_SERVER) -> None:
        """Kill the API server, or etcd."""
        self.plane.daemons.running[name].kill()
        self.plane.daemons.forget(name)

    def start(self, name: str = API_SERVER) -> None:
        """Start the API server and wait until it is ready, or start etcd."""
        self.plane.daemons.start(name, self._commands[name])
        if name == API_SERVER:
            self.wait_ready()

    def back_up(self, folder: Path) -> None:
        """Copy the data of etcd, which is stopped for that."""
        self.kill(API_SERVER)
        self.kill("etcd")
        shutil.copytree(self.plane.site.folder / "etcd", folder)
        self.start("etcd")
        self.start()

    def restore(self, folder: Path) -> None:
        """Put back the data of etcd."""
        self.kill(API_SERVER)
        self.kill("etcd")
        shutil.rmtree(self.plane.site.folder / "etcd")
        shutil.copytree(folder, self.plane.site.folder / "etcd")
        self.start("etcd")
        self.start()

    def make_namespace(self, test: str) -> str:
        """Make a namespace that is named after a test."""
        words = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())
        name = f"{words[:40].strip('-')}-{next(self._numbers)}"

        async def make() -> None:
            async with ApiClient(self.access) as client:
                await client.create(NAMESPACES, {"metadata": {"name": name}})

        asyncio.run(make())
        return name

    def wait_ready(self) -> None:
        self.plane.daemons.wait_for("the API server is ready", lambda: self.plane.answers("/readyz"))

    def etcd(self, path: str, body: Json) -> Json:
        """Ask etcd."""
        return etcd.ask(self.plane, path, body)

    def compact(self) -> None:
        """Have etcd forget all versions but the newest."""
        etcd.compact(self.plane)


@contextmanager
def bare_plane() -> Generator[Plane]:
    """A control plane for the duration of a block; pods can be created without service accounts."""
    place = site.claim(owned=True)
    watching = keeper.watch(place)
    daemons = Daemons(place)
    try:
        network.make_hub(place)
        flags = ["--disable-admission-plugins=ServiceAccount"]
        yield Plane(control_plane.start(place, daemons, has_controllers=False, api_server_flags=flags))
    finally:
        sweep.sweep(place)
        daemons.reap()
        watching.dismiss()


def definition() -> Json:
    """The definition of a kind of object whose spec may hold anything."""
    return {
        "metadata": {"name": f"{WIDGETS.plural}.{WIDGETS.group}"},
        "spec": {
            "group": WIDGETS.group,
            "scope": "Namespaced",
            "names": {"plural": WIDGETS.plural, "singular": "widget", "kind": WIDGETS.kind},
            "versions": [
                {
                    "name": WIDGETS.version,
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            },
                        }
                    },
                }
            ],
        },
    }
