"""Argo's controller: a process in the hub's namespace with the rights of its own service account.

Its limits are raised and its pauses shortened where a test would otherwise measure them: the client's rate,
the time between two looks at a workflow (10 s by default), the time before finished pods are removed. In a
cluster a crashed controller is started again by the kubelet; here a small shell loop does that.
"""

import urllib.request

from lightkube import Client

from testbed import api
from testbed.argo import manifests
from testbed.argo.workflows import SERVICE_ACCOUNT
from testbed.control_plane import API_QPS, ControlPlane
from testbed.errors import ComponentFailed
from testbed.images import image_name
from testbed.programs import program_path
from testbed.spec import Json

NAME = "workflow-controller"
METRICS_PORT = 9090  # the default
RESTARTED = "testbed: the controller ended"
RESTART_PAUSE_S = "1"

# A crash of the controller must not end the loop, and the loop's end must not leave the controller: it is
# told to end until it has. One that is just being started loses the first signal between fork and exec.
# Its arguments: the seconds between end and start, the program, the program's arguments.
LOOP = f"""
pause_s=$1; shift
trap 'stop=1; [ -z "$child" ] || kill "$child"' TERM
while [ -z "$stop" ]; do
  "$@" & child=$!
  [ -n "$stop" ] || wait "$child"; code=$?
  [ -z "$stop" ] || break
  child=
  echo "{RESTARTED} with exit code $code; it is started again"
  sleep "$pause_s"
done
while [ -n "$child" ] && kill "$child" 2> /dev/null; do sleep 0.1; done
"""


def start(plane: ControlPlane, client: Client) -> None:
    """Install Argo and start its controller; returns when a workflow would be looked at at once.

    Raises:
        MissingPrerequisite: The controller is not built.
        ComponentFailed: It crashed, or was not ready in time.
    """
    program = program_path(NAME)
    client.create(
        api.from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": manifests.NAMESPACE}})
    )
    definitions = manifests.definitions()
    api.create_all(client, [*definitions, *manifests.controller_objects(configuration())])
    plane.daemons.wait_for("Argo's resources are served", lambda: _are_served(plane, definitions))
    account = f"system:serviceaccount:{manifests.NAMESPACE}:{manifests.SERVICE_ACCOUNT}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{manifests.NAMESPACE}")
    plane.daemons.start(
        NAME,
        [
            *("sh", "-c", LOOP, "loop", RESTART_PAUSE_S, program),
            f"--kubeconfig={plane.kubeconfig_for(NAME, account, *groups)}",
            f"--namespace={manifests.NAMESPACE}",
            f"--configmap={manifests.CONFIG_MAP}",
            f"--qps={API_QPS}",
            f"--burst={API_QPS}",
            "--pod-cleanup-workers=16",
        ],
        environment={
            "LEADER_ELECTION_DISABLE": "true",  # there is one
            "DEFAULT_REQUEUE_TIME": "1s",  # the least that it allows
        },
    )
    plane.daemons.wait_for("Argo's controller is ready", lambda: is_ready(plane))


def configuration() -> Json:
    """The fields of the controller's configuration."""
    return {
        "executor": {
            "image": image_name("argoexec"),
            "imagePullPolicy": "Never",  # it is on every node; there is no registry
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        },
        "workflowDefaults": {"spec": {"serviceAccountName": SERVICE_ACCOUNT}},
        "podGCGracePeriodSeconds": 0,
        "podGCDeleteDelayDuration": "0s",
        "metricsConfig": {"enabled": True, "secure": False, "port": METRICS_PORT},
    }


def restarts(plane: ControlPlane) -> int:
    """How often the controller ended by itself and was started again."""
    return plane.site.log(NAME).read_text(errors="replace").count(RESTARTED)


def _are_served(plane: ControlPlane, definitions: list[Json]) -> bool:
    """Whether the API server lists the resources.

    It sets up the storage of one at its first request, which it refuses, to be tried again a second later.
    The controller would lose two seconds by that; here a resource is asked for again at once.
    """
    served = [
        plane.answers(
            f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1"
        )
        for spec in (definition["spec"] for definition in definitions)
    ]
    return all(served)


def is_ready(plane: ControlPlane) -> bool:
    """Whether a controller that was started a moment ago would look at a new workflow at once.

    Raises:
        ComponentFailed: It ended instead; the message has its last word.
    """
    if restarts(plane):
        log = plane.site.log(NAME)
        said = log.read_text(errors="replace").split(RESTARTED)[0].strip().splitlines()
        raise ComponentFailed(
            f"Argo's controller ended: {(said or ['it said nothing'])[-1]} (all of it: {log})"
        )
    # This queue exists once the controller has seen all that is there and looks at what changes.
    return 'worker_type="workflow_ttl_queue"' in _metrics(plane)


def _metrics(plane: ControlPlane) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{plane.site.hub_address}:{METRICS_PORT}/metrics", timeout=2.0) as answer:
            return answer.read().decode()
    except OSError:  # not listening yet
        return ""
