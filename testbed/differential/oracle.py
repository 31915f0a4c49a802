"""The oracle: what kube-scheduler's own plugins say of a cluster, asked of a program that links them.

Why a program: the plugins are Go. `testbed/go/oracle` links `k8s.io/kubernetes` 1.37.2, builds the framework
of the default profile once, and answers case after case. Why it may be believed: it holds no rule of its
own, and cases that the real scheduler answers through its extender are compared with it too.

Protocol: one JSON object a line each way, and a line in gives a line out, in order.

* in: `{"objects": […], "kinds": […], "is_validated": true, "has_scores": true, "has_reasons": true,
  "has_preemptions": true}`. The objects are plain Kubernetes manifests, as a mapping each, no `List`s; their
  kinds are `apiVersion/kind`. A pod with `spec.nodeName` is bound there; one without is judged, each by
  itself against the given cluster; `status.nominatedNodeName` nominates a judged pod for a node, which the
  others see as kube-scheduler would. Pods that ended or are being deleted unbound are left out, as
  kube-scheduler's own event handlers leave them out.
* out: an `Answer`, told apart by `type`.

What happens to the objects first: the API's defaults (the scheme's own); on request its validation, and what
it changes of a pod's spec when it creates one (its own); and what two admission plugins that are always on
would set: a claim's default storage class and a pod's priority. A uid is given where it is missing. Missing
namespaces of objects are made.

A set of nodes is a *bitmap*: `bytes` with node i of `Verdicts.nodes` as bit i % 8 (lowest first) of byte
i // 8, so that `np.packbits(mask, bitorder="little").tobytes()` of a mask in the same order is equal exactly
when the sets are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from testbed.errors import ComponentFailed
from testbed.programs import go, program_path

__all__ = [
    "Answer",
    "Invalid",
    "InvalidObject",
    "NodeToEmpty",
    "Oracle",
    "Panicked",
    "PodVerdict",
    "Preempting",
    "Refusal",
    "Verdicts",
]

PROGRAM: Final = "filter-oracle"
SECONDS_TO_END: Final = 5.0
CASES_AHEAD: Final = (
    2  # the program reads ahead of what it writes, so neither side waits for the other's pipe
)


class Refusal(msgspec.Struct, frozen=True):
    """Why a plugin alone refuses some nodes.

    Attributes:
        plugin: Its name.
        step: `PreEnqueue` or `PreFilter` (the pod as a whole), `PreFilterResult` (a node ruled out
            beforehand), `Filter`.
        code: kube-scheduler's status code, such as `Unschedulable` or `UnschedulableAndUnresolvable`.
        reason: Its words.
        nodes: Bitmap of the nodes that it refuses with these words.
    """

    plugin: str
    step: str
    code: str
    reason: str
    nodes: bytes


class NodeToEmpty(msgspec.Struct, frozen=True):
    """A node that would take a pod without some of its pods.

    Attributes:
        node: Its name.
        victims: The pods that must go, `namespace/name`, the most important first.
        violations: How many of them a disruption budget should have kept.
    """

    node: str
    victims: tuple[str, ...]
    violations: int = 0


class Preempting(msgspec.Struct, frozen=True):
    """What kube-scheduler's preemption would do for a pod, were no node feasible.

    Attributes:
        potential: Bitmap of the nodes on which it is tried.
        ineligible: Why the pod may not preempt now; empty when it may.
        candidates: The nodes on which it helps, in order of nodes; all of them, however many there are.
        chosen: The node of the best; of equal ones, any.
    """

    potential: bytes
    ineligible: str = ""
    candidates: tuple[NodeToEmpty, ...] = ()
    chosen: str = ""


class PodVerdict(msgspec.Struct, frozen=True):
    """What kube-scheduler's plugins say of one pod.

    Attributes:
        refused: Per plugin the bitmap of the nodes that it refuses when it is asked alone, by any step; a
            plugin that refuses none is not there.
        rejected: The plugins that reject the pod before any node is looked at; `refused` has every node for
            them.
        ruled_out: Per plugin the bitmap of the nodes that its PreFilterResult leaves out; part of `refused`.
        first: One byte per node: 0, the node is feasible; k > 0, `Verdicts.plugins[k - 1]` is the one that
            kube-scheduler names first, run as it runs them.
        feasible: Bitmap of the nodes where `first` is 0.
        total: Sum of the weighted scores, per feasible node in order of nodes; empty without scores.
        scores: Weighted and normalized scores of each score plugin that did not skip, in the same order.
        unscored: Why there are no scores, where a score plugin failed or panicked (which would have crashed
            kube-scheduler); the rest of the verdict stands.
        failed: What a filter said that did not refuse but failed: kube-scheduler then gives up this attempt
            to place the pod, whatever other nodes there are. The node counts as refused by that plugin.
        reasons: Why; empty unless asked for.
        preemption: What preemption would do; None unless asked for, and for pods that are gated or failed.
    """

    refused: dict[str, bytes]
    first: bytes
    feasible: bytes
    rejected: tuple[str, ...] = ()
    ruled_out: dict[str, bytes] = {}
    total: tuple[int, ...] = ()
    scores: dict[str, tuple[int, ...]] = {}
    unscored: str = ""
    failed: str = ""
    reasons: tuple[Refusal, ...] = ()
    preemption: Preempting | None = None


class Verdicts(msgspec.Struct, frozen=True, tag="verdicts"):
    """The answer to a case.

    Attributes:
        nodes: Names of the nodes, in the order of the case's objects.
        plugins: The filter plugins in the order in which kube-scheduler asks them.
        pods: The judged pods in the order of the objects, by `namespace/name`.
    """

    nodes: tuple[str, ...]
    plugins: tuple[str, ...]
    pods: dict[str, PodVerdict]

    def mask(self, bitmap: bytes) -> NDArray[np.bool_]:
        """The bitmap as a mask over `nodes`, shape (n,)."""
        bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), count=len(self.nodes), bitorder="little")
        return bits.astype(np.bool_)

    def names(self, bitmap: bytes) -> frozenset[str]:
        """The bitmap as names of nodes."""
        return frozenset(self.nodes[row] for row in np.flatnonzero(self.mask(bitmap)))

    def refused_by(self, pod: str) -> dict[str, frozenset[str]]:
        """Per plugin the nodes that it alone refuses for the pod `namespace/name`."""
        return {plugin: self.names(bitmap) for plugin, bitmap in self.pods[pod].refused.items()}

    def first_of(self, pod: str) -> dict[str, str | None]:
        """Per node the plugin that kube-scheduler names first for pod `namespace/name`; None: feasible."""
        numbers = self.pods[pod].first
        return {
            node: self.plugins[number - 1] if number else None
            for node, number in zip(self.nodes, numbers, strict=True)
        }

    def decisive(self, pod: str) -> dict[str, int]:
        """Per plugin how many nodes it alone keeps the pod `namespace/name` from; only plugins with some."""
        masks = {plugin: self.mask(bitmap) for plugin, bitmap in self.pods[pod].refused.items()}
        if not masks:
            return {}
        by_one = np.sum(list(masks.values()), axis=0) == 1
        counts = {plugin: int(np.count_nonzero(mask & by_one)) for plugin, mask in masks.items()}
        return {plugin: count for plugin, count in counts.items() if count}


class InvalidObject(msgspec.Struct, frozen=True):
    """An object that no API server would hold: its kind, `namespace/name`, and the validation's words."""

    kind: str
    name: str
    message: str


class Invalid(msgspec.Struct, frozen=True, tag="invalid"):
    """The case was not judged: some of its objects are refused by the API's own decoding or validation."""

    objects: tuple[InvalidObject, ...]


class Panicked(msgspec.Struct, frozen=True, tag="panicked"):
    """A plugin panicked, as kube-scheduler itself would; the program goes on with the next case.

    Attributes:
        pod: The pod that was judged, `namespace/name`.
        at: Where, such as `Filter VolumeBinding n3`.
        message: What Go said.
        frames: The stack, from where it panicked outwards.
    """

    pod: str
    at: str
    message: str
    frames: tuple[str, ...]


Answer = Verdicts | Invalid | Panicked
"""What the oracle says to a case."""

Objects = Sequence[Mapping[str, Any]]


class Oracle(contextlib.AbstractContextManager["Oracle"]):
    """The running program; use it as a context manager.

    One program uses one core. For two cores take two oracles in two processes.
    """

    def __init__(
        self,
        *,
        is_validated: bool = True,
        has_scores: bool = True,
        has_reasons: bool = True,
        has_preemptions: bool = False,
        program: Path | None = None,
    ) -> None:
        """Say what each answer shall hold.

        Args:
            is_validated: The API's validation of every object comes first, and can end in `Invalid`.
            has_scores: Score the feasible nodes of each pod.
            has_reasons: Tell why nodes are refused.
            has_preemptions: Tell what preemption would do for each pod.
            program: The program, where it is not the one of the cache.

        Raises:
            MissingPrerequisite: The program is not built.
        """
        self._options = {
            "is_validated": is_validated,
            "has_scores": has_scores,
            "has_reasons": has_reasons,
            "has_preemptions": has_preemptions,
        }
        self._program = program or program_path(PROGRAM)
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)

    def __enter__(self) -> Self:
        """Start the program."""
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [self._program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=_environment(),
        )
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        assert self._process.stdout is not None  # noqa: S101 - the same
        self._cases, self._answers = self._process.stdin, self._process.stdout
        return self

    def __exit__(self, *_: object) -> None:
        """End the program and wait for its end."""
        with contextlib.suppress(BrokenPipeError):  # a program that died was told of when it was asked
            self._cases.close()
        self._answers.close()
        try:
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

    @property
    def resident_bytes(self) -> int:
        """Memory that the program holds now."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def judge(self, objects: Objects) -> Answer:
        """Ask about one case.

        Args:
            objects: Kubernetes objects, as `msgspec` or a YAML parser gives them.

        Raises:
            ComponentFailed: The program died; the message has its last line.
        """
        self._send(objects)
        return self._receive()

    def judge_all(self, cases: Iterable[Objects]) -> Iterator[tuple[Objects, Answer]]:
        """Ask about case after case, each while the answer to the one before is looked at.

        Yields:
            Each case with its answer, in order.

        Raises:
            ComponentFailed: The program died; the message has its last line.
        """
        asked: deque[Objects] = deque()
        for objects in cases:
            self._send(objects)
            asked.append(objects)
            if len(asked) > CASES_AHEAD:
                yield asked.popleft(), self._receive()
        while asked:
            yield asked.popleft(), self._receive()

    def _send(self, objects: Objects) -> None:
        kinds = [f"{one.get('apiVersion', '')}/{one.get('kind', '')}" for one in objects]
        line = self._encoder.encode({**self._options, "kinds": kinds, "objects": objects})
        try:
            self._cases.write(line)
            self._cases.write(b"\n")
            self._cases.flush()
        except BrokenPipeError:
            raise self._death() from None

    def _receive(self) -> Answer:
        line = self._answers.readline()
        if not line.endswith(b"\n"):
            raise self._death()
        return self._decoder.decode(line)

    def _death(self) -> ComponentFailed:
        code = self._process.wait()
        self._said.seek(0)
        said = go.last_line(self._said.read().decode(errors="replace")) or "it said nothing"
        return ComponentFailed(f"{PROGRAM} ended with exit code {code}: {said}")


def _environment() -> dict[str, str]:
    """What Go's runtime reads: garbage collected rarely costs less, and a limit keeps that modest."""
    return {"GOGC": "400", "GOMEMLIMIT": "1GiB"} | os.environ
