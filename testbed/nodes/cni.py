"""The network of a node's pods: a bridge, addresses from the node's range, plain routes.

Pods have addresses that the hub routes (`network.py`), so a pod sees the true source of whatever reaches it,
as Kubernetes demands of a network, and no iptables rule is needed.

Source: CNI specification 1.0, plugins bridge, host-local and loopback of containernetworking-plugins.
"""

from testbed.nodes.place import NodePlace
from testbed.spec import Json

PLUGINS = "/usr/lib/cni"  # where Debian's package has them
BRIDGE = "pods"


def configuration(place: NodePlace) -> Json:
    """The network configuration list that containerd reads."""
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/var/lib/cni/networks",
                    "ranges": [[{"subnet": place.site.pod_range(place.number)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "loopback"},
        ],
    }
