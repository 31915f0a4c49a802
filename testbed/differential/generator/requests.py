"""Containers and what they ask for: every term of kube-scheduler's arithmetic of requests.

Init containers, sidecars, overhead, pod-level resources, extended resources, huge pages, resizes in place;
and host ports, which belong to containers.
"""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.nodes import EXTENDED, IMAGES
from testbed.differential.generator.world import Manifest, World

__all__ = ["add_containers", "add_pod_level", "resize_status"]

_CPU: Final = ("50m", "100m", "0.25", "250m", "500m", "999m", "1", "1.001", "100u", "2")
_MEMORY: Final = ("1", "64Mi", "100M", "128974848", "200Mi", "0.3Gi", "512Mi", "1e9", "1Gi", "750m")
_CALM_CPU: Final = ("10m", "50m", "100m", "150m")
_CALM_MEMORY: Final = ("16Mi", "32Mi", "50M", "100Mi")
_PORTS: Final = (80, 443, 8080)
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_ADDRESSES: Final = ("0.0.0.0", "10.0.0.1", "10.0.0.2", "fd00::1")  # noqa: S104  (values of the API)


def add_containers(world: World, spec: Manifest) -> None:
    """Add containers, with init containers and sidecars now and then, to a pod's spec."""
    is_heavy = world.has("resources")
    on_host = spec.get("hostNetwork", False)
    ports = _ports(world, on_host=on_host) if on_host or world.has("ports", 0.6) else []
    spec["containers"] = [
        _container(world, f"c{number}", is_heavy=is_heavy) for number in range(world.pick((1, 1, 1, 2, 3)))
    ]
    takes_ports = [*spec["containers"]]
    if (is_heavy and world.chance(0.5)) or world.chance(0.03):
        spec["initContainers"] = []
        for number in range(world.rng.randint(1, 3)):
            one = _container(world, f"i{number}", is_heavy=is_heavy)
            if world.chance(0.5):
                one["restartPolicy"] = "Always"
                takes_ports.append(one)
            elif world.chance(0.2) and ports:
                one["ports"] = [dict(ports[0])]  # of an init container that ends: holds no port
            spec["initContainers"].append(one)
    for port in ports:
        world.pick(takes_ports).setdefault("ports", []).append(port)
    if is_heavy and world.chance(0.2):
        overhead = {"cpu": "120m", "memory": "48Mi"} if world.chance(0.7) else {"memory": "1Gi"}
        spec["runtimeClassName"] = _runtime_class(world, overhead)
        spec["overhead"] = overhead
    if world.has("node-features", 0.8):
        one = world.pick(spec["containers"])
        one["restartPolicy"] = "Never"
        one["restartPolicyRules"] = [
            {
                "action": world.pick(("RestartAllContainers", "RestartAllContainers", "Restart")),
                "exitCodes": {"operator": "In", "values": [42]},
            }
        ]


def _runtime_class(world: World, overhead: dict[str, str]) -> str:
    """Return the name of a runtime class with this overhead: admission wants pods to have the same."""
    name = "sandbox-" + "-".join(overhead)
    if name not in world.used:
        world.used.add(name)
        world.early.append(
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": name},
                "handler": "sandbox",
                "overhead": {"podFixed": dict(overhead)},
            }
        )
    return name


def _container(world: World, name: str, *, is_heavy: bool) -> Manifest:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    cpu, memory = (_CPU, _MEMORY) if is_heavy else (_CALM_CPU, _CALM_MEMORY)
    if world.chance(0.8):
        requests["cpu"] = world.pick(cpu)
    if world.chance(0.8):
        requests["memory"] = world.pick(memory)
    if is_heavy:
        _ask_for_more(world, requests, limits)
    resources: Manifest = {}
    if requests:
        resources["requests"] = requests
    if limits:
        resources["limits"] = limits
    one: Manifest = {"name": name, "image": world.pick(tuple(IMAGES)) if world.has("scores") else "img"}
    if one["image"].endswith(":latest") and world.chance(0.5):
        one["image"] = one["image"].removesuffix(":latest")
    if resources:
        one["resources"] = resources
    return one


def _ask_for_more(world: World, requests: dict[str, str], limits: dict[str, str]) -> None:
    """Add what few containers ask for; limits stand in for requests that are not named."""
    if world.chance(0.1):
        limits["memory"] = requests.pop("memory", "256Mi")
    if world.chance(0.2):
        requests["ephemeral-storage"] = world.pick(("0", "50Mi", "2Gi"))
    if world.chance(0.25):
        limits[world.pick(EXTENDED)] = world.pick(("0", "1", "2"))
    if world.chance(0.12):
        limits["hugepages-2Mi"] = world.pick(("2Mi", "64Mi", "100Mi"))
        requests.setdefault("cpu", "100m")  # huge pages come only with cpu or memory


def _ports(world: World, *, on_host: bool) -> list[Manifest]:
    ports: dict[tuple[object, ...], Manifest] = {}
    for _ in range(world.rng.randint(1, 2)):
        number = world.pick(_PORTS)
        port: Manifest = {"containerPort": number}
        if not (on_host and world.chance(0.5)):  # on the host's network it is a host port anyway
            port["hostPort"] = number
        if world.chance(0.4):
            port["protocol"] = world.pick(_PROTOCOLS)
        if world.chance(0.5):
            port["hostIP"] = world.pick(_ADDRESSES)
        ports[number, port.get("protocol", "TCP"), port.get("hostIP", "")] = port
    return list(ports.values())


def add_pod_level(world: World, spec: Manifest) -> None:
    """Add pod-level resources, which must not be less than what the containers ask for together.

    So the containers of such a pod ask for little, and nothing that only containers can ask for.
    """
    for one in (*spec["containers"], *spec.get("initContainers", ())):
        one["resources"] = {"requests": {"cpu": "50m", "memory": "16Mi"}} if world.chance(0.5) else {}
    level = {"cpu": world.pick(("1", "1500m", "3")), "memory": world.pick(("512Mi", "1Gi", "2G"))}
    if world.chance(0.3):
        del level[world.pick(("cpu", "memory"))]
    resources: Manifest = {}
    if world.chance(0.7):
        resources["requests"] = level
    else:
        resources["limits"] = level
    if world.chance(0.2):
        resources.setdefault("limits", {})["hugepages-2Mi"] = "64Mi"
        resources.setdefault("requests", {})["hugepages-2Mi"] = "64Mi"
    spec["resources"] = resources


def resize_status(world: World, spec: Manifest) -> Manifest:
    """Return the status of a running pod whose resources are being changed in place."""
    statuses: list[Manifest] = []
    for one in spec["containers"]:
        status: Manifest = {
            "name": one["name"],
            "image": "img",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
        }
        status["state"] = {"running": {}}
        asked = one.get("resources", {}).get("requests", {})
        if asked and world.chance(0.8):
            status["allocatedResources"] = {
                name: _other(world, name, amount) for name, amount in asked.items()
            }
        if asked and world.chance(0.8):
            status["resources"] = {
                "requests": {name: _other(world, name, amount) for name, amount in asked.items()}
            }
        statuses.append(status)
    result: Manifest = {"phase": "Running", "containerStatuses": statuses}
    if world.chance(0.6):
        reason = world.pick(("Infeasible", "Deferred"))
        result["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if "resources" in spec and world.chance(0.5):
        result["allocatedResources"] = {"cpu": "2", "memory": "1Gi"}
        result["resources"] = {"requests": {"cpu": "1700m", "memory": "1Gi"}}
    return result


def _other(world: World, name: str, amount: str) -> str:
    if world.chance(0.4):
        return amount
    return world.pick({"cpu": _CPU, "memory": _MEMORY}.get(name, (amount,)))
