"""Volumes of in-tree plugins as the CSI volumes they have become.

Only what the default filters need: the driver and handle under which such a volume counts towards a node's
limit, and the node affinity that holds where the plugin is migrated. Source of the formats:
csi-translation-lib (`plugins/*.go`). Azure Files and vSphere volumes are not counted by the scheduler, and
Portworx ones carry no topology.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stowplan.core.domain import NodeSelectorTerm, Operator, Requirement
from stowplan.kube.manifest.cursor import Cursor

__all__ = ["Migrated", "migrated_affinity", "migrated_volume"]

_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_EBS_ID: Final = re.compile(r"vol-[^/]*")
_UNKNOWN: Final = "UNSPECIFIED"

_TOPOLOGY_KEY: Final = {
    "kubernetes.io/aws-ebs": "topology.ebs.csi.aws.com/zone",
    "kubernetes.io/gce-pd": "topology.gke.io/zone",
    "kubernetes.io/cinder": "topology.cinder.csi.openstack.org/zone",
}


class Migrated(NamedTuple):
    """An in-tree volume's plugin, and the CSI driver and handle it stands for (None: no handle can)."""

    plugin: str
    driver: str
    handle: str | None


def migrated_volume(source: Cursor, labels: dict[str, str] | None) -> Migrated | None:
    """Return what the volume source stands for; None when no migrated plugin of ours made it.

    `labels` are those of the PersistentVolume, None for a volume named in a pod.
    """
    if source["awsElasticBlockStore"].is_set:
        handle = _ebs_handle(source["awsElasticBlockStore"]["volumeID"].text())
        return Migrated("kubernetes.io/aws-ebs", "ebs.csi.aws.com", handle)
    if source["gcePersistentDisk"].is_set:
        handle = _gce_handle(source["gcePersistentDisk"]["pdName"].text(), labels or {})
        return Migrated("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", handle)
    if source["cinder"].is_set:
        handle = source["cinder"]["volumeID"].text()
        return Migrated("kubernetes.io/cinder", "cinder.csi.openstack.org", handle)
    if source["azureDisk"].is_set:
        disk = source["azureDisk"]
        is_managed = disk["kind"].text("Shared").casefold() == "managed"
        return Migrated(
            "kubernetes.io/azure-disk", "disk.csi.azure.com", disk["diskURI"].text() if is_managed else None
        )
    if source["portworxVolume"].is_set:
        handle = source["portworxVolume"]["volumeID"].text()
        return Migrated("kubernetes.io/portworx-volume", "pxd.portworx.com", handle)
    return None


def _ebs_handle(volume_id: str) -> str | None:
    if not volume_id.startswith("aws://"):
        return volume_id
    path = volume_id.removeprefix("aws://").partition("/")[2].strip("/")
    return path if _EBS_ID.fullmatch(path) else None


def _gce_handle(disk: str, labels: dict[str, str]) -> str | None:
    zones = (labels.get(_BETA_ZONE) or labels.get(_ZONE) or "").split("__")
    if len(zones) == 1:
        return f"projects/{_UNKNOWN}/zones/{zones[0] or _UNKNOWN}/disks/{disk}"
    regions = {zone.rpartition("-")[0] if zone.count("-") == 2 else "" for zone in zones}
    region = regions.pop()
    return None if regions or not region else f"projects/{_UNKNOWN}/regions/{region}/disks/{disk}"


def migrated_affinity(
    plugin: str, terms: tuple[NodeSelectorTerm, ...] | None, labels: dict[str, str]
) -> tuple[NodeSelectorTerm, ...] | None:
    """Return a volume's node affinity as it is on nodes where its plugin is migrated.

    Zone keys become the driver's; without any, the zone labels of the volume do. A beta region key becomes
    the stable one.
    """
    key = _TOPOLOGY_KEY.get(plugin)
    if key is None:
        return terms
    used = {requirement.key for term in terms or () for requirement in term.expressions}
    is_beta = _ZONE not in used and (_BETA_ZONE in used or (_ZONE not in labels and _BETA_ZONE in labels))
    zone, region = (_BETA_ZONE, _BETA_REGION) if is_beta else (_ZONE, _REGION)
    renamed = {zone: key} if _has_values(terms, zone) else {}
    if not renamed and zone in labels:
        zones = tuple(sorted({part.strip() for part in labels[zone].split("__")} - {""}))
        if zones:
            extra = Requirement(key, Operator.IN, zones)
            terms = tuple(
                NodeSelectorTerm((*term.expressions, extra), term.fields)
                for term in (terms or (NodeSelectorTerm(),))
            )
    if is_beta and _has_values(terms, region):
        renamed[region] = _REGION
    if terms is None or not renamed:
        return terms
    return tuple(
        NodeSelectorTerm(
            tuple(Requirement(renamed.get(r.key, r.key), r.operator, r.values) for r in term.expressions),
            term.fields,
        )
        for term in terms
    )


def _has_values(terms: tuple[NodeSelectorTerm, ...] | None, key: str) -> bool:
    return any(r.key == key and r.values for term in terms or () for r in term.expressions)
