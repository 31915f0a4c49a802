"""Stowplan's scheduler as a process of the cluster: with the rights of its service account, and no others.

The account and its rights are those of `examples/rbac.yaml`, which an operator applies too. The process runs
in the hub's network namespace, as Argo's controller does, and is asked there over its HTTP face.
"""

import http.client
import json
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import yaml
from lightkube import ApiError, Client
from lightkube.codecs import from_dict
from prometheus_client.parser import text_string_to_metric_families

from testbed import api, network
from testbed.bulk import Connection
from testbed.control_plane import ControlPlane
from testbed.daemons import Daemon
from testbed.errors import ComponentFailed
from testbed.spec import Json

NAME = "stowplan"
NAMESPACE = "stowplan-system"
ACCOUNT = "stowplan-scheduler"
PORT = 10451
MODES = ("extender", "binder", "gate", "shadow")
RIGHTS = Path(__file__).resolve().parent.parent / "examples" / "rbac.yaml"
CONFLICT = 409


def grant(client: Client, mode: str) -> None:
    """Give the service account the rights of a mode, and take those of any other.

    Raises:
        ApiError: The API server refused something.
    """
    for document in rights(mode):
        if document["kind"] == "ClusterRoleBinding":
            _replace(client, document)
        else:
            _create(client, document)


def rights(mode: str) -> Iterator[Json]:
    """The documents of `examples/rbac.yaml`, with the account bound to the role of `mode`."""
    for document in yaml.safe_load_all(RIGHTS.read_text()):
        if document["kind"] == "ClusterRoleBinding":
            document["roleRef"]["name"] = f"{ACCOUNT}-{mode}"
        yield document


def _create(client: Client, document: Json) -> None:
    try:
        client.create(from_dict(document))
    except ApiError as error:
        if error.status.code != CONFLICT:
            raise


def _replace(client: Client, document: Json) -> None:
    kind = from_dict(document)
    if api.exists(client, type(kind), document["metadata"]["name"]):
        client.delete(type(kind), document["metadata"]["name"])  # a binding's role cannot be changed
    client.create(kind)


@dataclass
class Scheduler:
    """A scheduler process, which comes and goes under one name.

    Attributes:
        plane: The control plane that it talks to.
        config: Sections of its configuration file.
        name: Of the process, its log and its files.
        port: Of its HTTP face, on the hub's loopback.
        server: The API server's address, if it is to be reached some other way than directly; the account is
            then shown by a token.
        options: More words of the command line.
        environment: Variables beside this process's own.
    """

    plane: ControlPlane
    config: Mapping[str, Json]
    name: str = NAME
    port: int = PORT
    server: str = ""
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    _silent_until: int = 0

    @property
    def scheduler_name(self) -> str:
        """What pods name to be placed by it."""
        return str(self.config.get("scheduler", {}).get("name", NAME))

    @property
    def daemon(self) -> Daemon:
        """Its process."""
        return self.plane.daemons.running[self.name]

    @property
    def log(self) -> str:
        """All that it has said in this life."""
        return self.plane.site.log(self.name).read_bytes()[self._silent_until :].decode(errors="replace")

    def start(self) -> None:
        """Start it; returns at once."""
        account = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
        kubeconfig = self.plane.kubeconfig_for(self.name, account, *groups)
        if self.server:
            document = json.loads(kubeconfig.read_text())
            document["clusters"][0]["cluster"]["server"] = self.server
            document["users"][0]["user"] = {"token": token(self.plane)}
            kubeconfig.write_text(json.dumps(document))
        log = self.plane.site.log(self.name)
        self._silent_until = log.stat().st_size if log.exists() else 0
        file = self.plane.site.folder / f"{self.name}.yaml"
        file.write_text(json.dumps(self._whole_config(kubeconfig)))
        self.plane.daemons.start(
            self.name,
            [*program(), "serve", "scheduler", f"--config={file}", *self.options],
            environment=self.environment,
        )

    def _whole_config(self, kubeconfig: Path) -> Json:
        ours: dict[str, Json] = {
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "http": {"port": self.port},
            "lease": {"namespace": NAMESPACE},
        }
        return {
            section: ours.get(section, {}) | dict(self.config.get(section, {}))
            for section in (*ours, *(name for name in self.config if name not in ours))
        }

    def wait_ready(self, within_s: float = 60.0) -> None:
        """Wait until it is ready and leads.

        Raises:
            ComponentFailed: It ended, or is not in time.
        """
        self.plane.daemons.wait_for(f"{self.name} is ready", self.is_ready, within_s)
        if self.config.get("scheduler", {}).get("mode") != "extender":
            self.plane.daemons.wait_for(f"{self.name} leads", self.leads, within_s)

    def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        try:
            return self.get("/readyz")[0] == http.HTTPStatus.OK
        except OSError:
            return False

    def leads(self) -> bool:
        """Whether it is the one of several that works."""
        try:
            return self.metric("stowplan_leader") == 1.0
        except OSError:
            return False

    def end(self, within_s: float = 30.0) -> None:
        """Ask it to end and wait for that; its name may be used again."""
        self.daemon.end(within_s)
        self.plane.daemons.forget(self.name)

    @contextmanager
    def running(self) -> Generator[Self]:
        """It runs and leads in the block, and is ended after it; killed, if the block fails."""
        self.start()
        try:
            self.wait_ready()
            yield self
        except BaseException:
            if self.name in self.plane.daemons.running:
                self.kill()
            raise
        self.end()

    def kill(self) -> None:
        """Kill it, as a crash does."""
        self.daemon.kill()
        self.plane.daemons.forget(self.name)

    def get(self, path: str) -> tuple[int, str]:
        """Ask its HTTP face; returns the status and what it says.

        Raises:
            OSError: Nothing listens there.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20.0)
        network.inside(self.plane.site.hub, connection.connect)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ask(self, path: str) -> Json:
        """What its HTTP face answers, read as JSON.

        Raises:
            ComponentFailed: It answers anything but OK.
        """
        status, said = self.get(path)
        if status != http.HTTPStatus.OK:
            raise ComponentFailed(f"{self.name}: GET {path}: {status} {said[:300]}")
        return json.loads(said)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of its metric's samples that have these labels; 0 where there is none."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def token(plane: ControlPlane, valid_s: int = 86_400) -> str:
    """A bearer token of the service account, as its pod would have it.

    Raises:
        ComponentFailed: The account does not exist.
    """
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": valid_s},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    with Connection(plane) as connection:
        return str(json.loads(connection.send("POST", path, body))["status"]["token"])


def program() -> list[str]:
    """The command that this Python environment has installed."""
    return [str(Path(sys.executable).with_name("stowplan"))]
