"""Every filter for one pod shape, compiled against one cluster and kept current at the cost of what changed.

Each filter owns a bit; a node's bits say which filters refuse it, so that the first in kube-scheduler's
order is its lowest bit. `refresh` reads the state's journal: a bound or removed pod costs its own row for
the filters that depend on the row alone, and for topology spread and inter-pod affinity only when the pod
matters to one of the shape's terms, then the rows of the domains it tips.

A node for which other pods are nominated is judged twice, as kube-scheduler does it
(`RunFilterPluginsWithNominatedPods`): with those of no lower priority than the pod as if they ran there, and
without them, since they may end up elsewhere. It must accept the pod both times.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.beside import bits_beside
from stowplan.core.constraints.filter import ALL_ROWS, FILTERS, NO_ROWS, NodeFilter, bit_of
from stowplan.core.constraints.journal import ChangeBatch, journal_of
from stowplan.core.constraints.needed import filters_for
from stowplan.core.constraints.rules import NO_RULES, RuleTable
from stowplan.core.constraints.trial import MovingPods, NodesOnTrial, Verdict
from stowplan.core.constraints.volume_binding import VolumeBinding
from stowplan.core.domain import (
    BoundPod,
    Change,
    ChangeKind,
    ClusterState,
    PersistentVolume,
    PersistentVolumeClaim,
    PodShape,
)

__all__ = ["CompiledFilters"]

_NO_NODE: Final = 1 << len(FILTERS)
_LOWEST_BIT: Final[NDArray[np.int8]] = np.zeros(1 << (len(FILTERS) + 1), dtype=np.int8)
for _bit in reversed(range(len(FILTERS))):
    _LOWEST_BIT[1 << _bit :: 1 << (_bit + 1)] = _bit + 1
_LOWEST_BIT[_NO_NODE:] = -1
_LOWEST_BIT.flags.writeable = False

_FEW_CHANGES: Final = 10
"""Up to so many changes are read one by one."""
_FEW_ROWS: Final = 10
"""Up to so many rows are looked at one by one: an array operation costs as much as several rows."""


class CompiledFilters:
    """The nodes that can take a pod of one shape.

    Attributes: feasible: shape (capacity,); whether the row holds a node that no filter refuses. Changed in
        place by `refresh`.
    """

    __slots__ = (
        "_beside",
        "_bits",
        "_capacity",
        "_filters",
        "_pod_filters",
        "_room_filters",
        "_sequence",
        "_state",
        "feasible",
        "shape",
    )

    def __init__(self, state: ClusterState, shape: PodShape, *, rules: RuleTable = NO_RULES) -> None:
        """Bind to a state and compile."""
        self._state = state
        self.shape = shape
        self._filters: list[tuple[int, NodeFilter]] = [
            (bit_of(one.name), one) for one in filters_for(state, shape, rules)
        ]
        self._room_filters = [
            (bit, one) for bit, one in self._filters if one.follows_pods and type(one).note is NodeFilter.note
        ]
        self._pod_filters = [
            (bit, one)
            for bit, one in self._filters
            if one.follows_pods and type(one).note is not NodeFilter.note
        ]
        self._capacity = 0
        self._sequence = 0
        self._bits: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._beside: dict[int, int] = {}  # row for which pods are nominated → bits beside them
        self.feasible: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._compile()

    # ---- answers ----

    @property
    def refused_by(self) -> NDArray[np.int8]:
        """The first filter that refuses each row, shape (capacity,).

        0: the node is feasible; k > 0: `FILTERS[k - 1]` refuses it first; −1: the row holds no node.
        What rejects the pod comes before what rules a node out, and that before the filters.
        """
        first = _LOWEST_BIT[self._bits]
        for row, bits in self._beside.items():
            if bits:
                first[row] = _LOWEST_BIT[bits]
        for bit, one in reversed(self._filters):
            is_out = one.ruled_out()
            if is_out is not None:
                first[is_out & (first >= 0)] = bit.bit_length()
        for bit, one in sorted(self._filters, key=lambda known: not known[1].is_gate):
            if one.rejects_pod:
                first[first >= 0] = bit.bit_length()
                break
        return first

    def refusing_bits(self) -> NDArray[np.int32]:
        """Return every filter that refuses each row, shape (capacity,): bit k for `FILTERS[k]`."""
        bits = self._bits & np.int32(_NO_NODE - 1)
        for row, beside in self._beside.items():
            bits[row] |= beside
        return bits

    def all_refusing(self, row: int) -> tuple[str, ...]:
        """Return the names of every filter that refuses a row, in order."""
        bits = int(self.refusing_bits()[row])
        return tuple(name for name in FILTERS if bits & bit_of(name))

    def counts(self) -> dict[str, int]:
        """Return how many nodes each filter is the first to refuse, by name, for those that refuse any."""
        counted = np.bincount(self.refused_by[self._state.is_node], minlength=len(FILTERS) + 1)
        return {name: int(counted[number + 1]) for number, name in enumerate(FILTERS) if counted[number + 1]}

    def reason(self, row: int) -> str | None:
        """Say why the first filter refuses a row; None when the row is feasible or holds no node."""
        number = int(self.refused_by[row])
        for bit, one in self._filters:
            if bit.bit_length() == number:
                if self._bits[row] & bit or one.rejects_pod:
                    return one.reason(row)
                first = ", ".join(sorted(pod.key for pod in self._nominated_for(row)))
                return (
                    f"would be refused beside the pods that are nominated for this node and go first: {first}"
                )
        return None

    def trial(self, rows: NDArray[np.intp]) -> NodesOnTrial:
        """Return the nodes of some rows on trial: what would the filters say with other pods on them?

        Args:
            rows: none of them twice, shape (places,); the filters must be caught up with the state.
        """
        numbers: list[int] = rows.tolist()
        there = [self._state.pods_on[row] for row in numbers]
        pods = [pod for those in there for pod in those.values()]
        places = np.repeat(np.arange(len(rows)), [len(those) for those in there])
        present = len(pods)
        if self._beside:
            beside = np.flatnonzero(np.isin(rows, list(self._beside)))
            nominated = [self._nominated_for(row) for row in rows[beside].tolist()]
            pods += [pod for those in nominated for pod in those]
            places = np.append(places, np.repeat(beside, [len(those) for those in nominated]))
        moving = MovingPods(pods, places)
        trials = [one.trial(rows, moving) for _, one in self._filters]
        return NodesOnTrial([one for one in trials if one is not None], moving, present)

    def yielding(self) -> NDArray[np.bool_]:
        """Tell which rows refuse the pod but could accept it with fewer pods on them, shape (capacity,).

        Those are the nodes on which kube-scheduler tries preemption: the first filter that refuses says so
        (`Unschedulable`, as against `UnschedulableAndUnresolvable`).
        """
        yields = np.zeros(self._capacity, dtype=np.bool_)
        if any(one.rejects_pod for _, one in self._filters):
            return yields
        first = self.refused_by
        for bit, one in self._filters:
            mine = first == bit.bit_length()
            if mine.any():
                could = one.yielding()
                if could is not None:
                    yields |= mine & could
        refused = np.array([row for row, bits in self._beside.items() if bits], dtype=np.intp)
        if len(refused):
            yields[refused] = self.trial(refused).verdicts(np.arange(len(refused))) == Verdict.REFUSES
        return yields

    def could_ever_fit(self) -> bool:
        """Tell whether some node could take the pod if every bound pod left.

        False means that waiting for pods to end cannot help: nodes, storage or the pod itself must change.
        Scheduling gates do not count, since whoever set them lifts them.
        """
        possible = self._state.is_node.copy()
        for _, one in self._filters:
            mask = one.refused_when_empty()
            if mask is not None:
                possible &= ~mask
        return bool(possible.any())

    def storage_to_assume(self, row: int) -> list[PersistentVolume | PersistentVolumeClaim]:
        """Return the storage objects that binding the pod to a feasible `row` changes (mostly none).

        Apply each as `StorageSet` with the binding: the volumes that the pod's claims will get are then no
        one else's, and claims that need a new volume wait for this node. Put the old objects back if the
        binding fails.
        """
        for _, one in self._filters:
            if isinstance(one, VolumeBinding):
                return one.to_assume(row)
        return []

    # ---- keeping current ----

    def _compile(self) -> None:
        state = self._state
        bits = np.zeros(state.capacity, dtype=np.int32)
        for bit, one in self._filters:
            one.compile()
            mask = one.refused(ALL_ROWS)
            if mask is not None:
                bits |= np.where(mask, np.int32(bit), np.int32(0))
        bits[~state.is_node] = _NO_NODE
        self._bits = bits
        self._capacity = state.capacity
        self._sequence = state.sequence
        if len(self.feasible) == len(bits):
            np.equal(bits, 0, out=self.feasible)
        else:
            self.feasible = bits == 0
        self._beside = {}
        if state.nominations.on:
            self._look_beside()

    def refresh(self) -> NDArray[np.intp] | None:
        """Catch up with the state's journal.

        Returns:
            The rows that were looked at again (empty: none; a row may occur twice), or None: all rows were.
        """
        state = self._state
        if state.sequence == self._sequence:
            return NO_ROWS
        changes = state.changes_since(self._sequence)
        if changes is None or state.capacity != self._capacity:
            self._compile()
            return None
        rows = self._catch_up(changes)
        if self._beside or state.nominations.on:
            looked_at = self._look_beside()
            rows = None if rows is None else np.concatenate([rows, looked_at])
        return rows

    def _catch_up(self, changes: list[Change]) -> NDArray[np.intp] | None:
        """Look again at what `changes` touched; return the rows, None: all."""
        state = self._state
        if len(changes) > _FEW_CHANGES:
            batch = journal_of(state).since(state, self._sequence, changes)
            if batch is not None:
                self._sequence = state.sequence
                return self._refresh_batch(batch)
        self._sequence = state.sequence
        pod_rows: list[int] = []
        node_rows: list[int] = []
        kinds = 0
        for change in changes:
            kind = change.kind
            if kind is ChangeKind.POD:
                pod_rows.append(change.row)
            else:
                kinds |= kind
                if kind is ChangeKind.NODE:
                    node_rows.append(change.row)
        if kinds:
            return self._refresh_all(changes, pod_rows, node_rows, ChangeKind(kinds))
        return self._refresh_pods(changes, pod_rows)

    def _refresh_pods(self, changes: list[Change], pod_rows: list[int]) -> NDArray[np.intp] | None:
        rows = pod_rows if len(pod_rows) == 1 else list(dict.fromkeys(pod_rows))
        for bit, one in self._room_filters:
            self._look_again(bit, one, rows)
        return self._settle([np.array(rows, dtype=np.intp)], changes)

    def _settle(
        self, looked_at: list[NDArray[np.intp]], changes: list[Change] | ChangeBatch
    ) -> NDArray[np.intp] | None:
        """Let the filters that follow pods take notice, and look again at what that touched."""
        is_everywhere = False
        for bit, one in self._pod_filters:
            if isinstance(changes, list):
                for change in changes:
                    one.note(change)
            else:
                one.note_batch(changes)
            touched = one.settle()
            if touched is None:
                is_everywhere = True
                self._look_everywhere(bit, one)
            elif len(touched):
                self._look_again(bit, one, touched)
                looked_at.append(touched)
        if is_everywhere:
            np.equal(self._bits, 0, out=self.feasible)
            return None
        return looked_at[0] if len(looked_at) == 1 else np.concatenate(looked_at)

    def _refresh_batch(self, batch: ChangeBatch) -> NDArray[np.intp] | None:
        for bit, one in self._room_filters:
            self._look_again(bit, one, batch.rows)
        return self._settle([batch.rows], batch)

    def _refresh_all(
        self, changes: list[Change], pod_rows: list[int], node_rows: list[int], kinds: ChangeKind
    ) -> NDArray[np.intp] | None:
        """Refresh after nodes, storage or namespaces changed too."""
        rows = np.array(list(dict.fromkeys([*pod_rows, *node_rows])), dtype=np.intp)
        nodes = np.array(list(dict.fromkeys(node_rows)), dtype=np.intp)
        is_everywhere = False
        for bit, one in self._filters:
            if one.watches & kinds:
                one.compile()
                self._look_everywhere(bit, one)
                is_everywhere = True
                continue
            if one.follows_pods:
                for change in changes:
                    if change.kind is ChangeKind.POD:
                        one.note(change)
                touched = one.settle()
                if touched is None:
                    self._look_everywhere(bit, one)
                    is_everywhere = True
                    continue
                if len(touched):
                    rows = np.concatenate([rows, touched])
                self._look_again(bit, one, np.concatenate([rows, nodes]))
            elif len(nodes):
                self._look_again(bit, one, nodes)
        if len(nodes):
            holds_node = self._state.is_node[nodes]
            self._bits[nodes] = np.where(holds_node, self._bits[nodes] & ~np.int32(_NO_NODE), _NO_NODE)
        np.equal(self._bits, 0, out=self.feasible)
        return None if is_everywhere else rows

    def _look_again(self, bit: int, one: NodeFilter, rows: list[int] | NDArray[np.intp]) -> None:
        bits, feasible = self._bits, self.feasible
        if len(rows) <= _FEW_ROWS:
            for row in rows if isinstance(rows, list) else rows.tolist():
                old = int(bits[row])
                new = old | bit if one.refuses(row) else old & ~bit
                if new != old:
                    bits[row] = new
                    feasible[row] = new == 0
            return
        numbers = np.array(rows, dtype=np.intp) if isinstance(rows, list) else rows
        mask = one.refused(numbers)
        has_changed = bits.take(numbers) & bit != 0
        if mask is not None:
            has_changed ^= mask
        if has_changed.any():
            changed = numbers[has_changed]
            flipped = bits[changed] ^ np.int32(bit)
            bits[changed] = flipped
            feasible[changed] = flipped == 0

    def _nominated_for(self, row: int) -> list[BoundPod]:
        """Return the pods that are nominated for a row and go before this one."""
        there = self._state.nominations.on.get(self._state.node(row).name, {})
        shape = self.shape
        return [
            pod
            for pod in there.values()
            if pod.shape.priority >= shape.priority and pod.key != shape.own_nomination
        ]

    def _look_beside(self) -> NDArray[np.intp]:
        """Judge the rows for which pods are nominated; return them and those of last time."""
        before = self._beside
        nominated: dict[int, list[BoundPod]] = {}
        for name in self._state.nominations.on:
            row = self._state.row(name)
            pods = self._nominated_for(row) if row >= 0 else ()
            if pods:
                nominated[row] = pods
        self._beside = bits_beside(self._filters, nominated, self._bits)
        rows = np.array([*before, *self._beside], dtype=np.intp)
        self.feasible[rows] = self._bits[rows] == 0
        for row, bits in self._beside.items():
            if bits:
                self.feasible[row] = False
        return rows

    def _look_everywhere(self, bit: int, one: NodeFilter) -> None:
        mask = one.refused(ALL_ROWS)
        self._bits &= np.int32(~bit)
        if mask is not None:
            self._bits |= np.where(mask, np.int32(bit), np.int32(0))
            self._bits[~self._state.is_node] = _NO_NODE
