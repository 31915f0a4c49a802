"""From an Argo object to its task graph: templates are called one by one, as the controller would call them.

Every call walks down with the values that are known, the nodes that must be fulfilled before it, and the
chance that it runs at all; it hands back the nodes that whoever comes after must wait for.

Source: Argo Workflows 4.0, `workflow/controller/dag.go`, `steps.go`, `operator.go` (executeTemplate),
`hooks.go`, `exit_handler.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypedDict, Unpack, cast

from stowplan.errors import InvalidObject, InvalidWorkflow
from stowplan.kube.argo.chances import Ways, chance_of, ways_of
from stowplan.kube.argo.conditions import decide
from stowplan.kube.argo.dag import Dags, continued, is_expanded
from stowplan.kube.argo.effective import template_type, with_defaults
from stowplan.kube.argo.fanout import Fanout, FanoutError, Item, read_fanout
from stowplan.kube.argo.globals import parameter_value
from stowplan.kube.argo.graph import ANY_ITEM, Call, Chance, Hook, Node, NodeKind, PodPlan
from stowplan.kube.argo.objects import Json, as_list, as_mapping, text_of
from stowplan.kube.argo.pods import PatchError, PodMaker, Skeleton
from stowplan.kube.argo.problems import Problems
from stowplan.kube.argo.resolution import AtRunTime, Base, Resolved, Resolver
from stowplan.kube.argo.retry import Retry, read_retry
from stowplan.kube.argo.sizes import RoomForItems, is_open, named_with
from stowplan.kube.argo.spots import Gate, ReadLimits, Site, Spot, locks_of
from stowplan.kube.argo.variables import Variables, put_in

__all__ = ["Builder"]

_DEEPEST: Final = 100  # the controller's own limit on nested templates
_FIRST_ATTEMPT: Final = {
    "retries": "0",
    "lastRetry.exitCode": "0",
    "lastRetry.duration": "0",
    "lastRetry.status": "",
    "lastRetry.message": "",
}
_ITEM_CHANCE: Final = {True: Chance.CERTAIN, None: Chance.CONDITIONAL, False: Chance.NEVER}


class _More(TypedDict, total=False):
    """What only some nodes have."""

    note: str
    pod: PodPlan | None
    retry: Retry | None
    daemon: bool
    may_skip_pod: bool
    locks: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]


@dataclass
class Builder:
    """Builds the graph of one workflow; what turns out to be wrong on the way goes to `problems`.

    `spec` is the effective specification, `variables` are the workflow's global ones.
    """

    spec: Json
    variables: Variables
    resolver: Resolver
    dags: Dags
    pods: PodMaker
    problems: Problems
    limits: ReadLimits

    def __post_init__(self) -> None:
        """Begin with an empty graph."""
        self.nodes: list[Node] = []
        self.calls: list[Call] = []
        # Keyed by identity; the values hold on to the keys, so that none is given to another object.
        self._merged: dict[int, tuple[Json, Json]] = {}
        self._room_for_items = RoomForItems(self.resolver, self.limits)
        self._skeletons: dict[tuple[int, int, bool], tuple[Json, Json | None, Skeleton]] = {}

    # ---- the workflow ----

    def workflow(self, base: Base) -> None:
        """Build the entry point, the hooks and the exit handler of the workflow."""
        entry = self.resolver.by_name(text_of(self.spec.get("entrypoint")), base, f"{base.where}.entrypoint")
        if entry is None:
            return
        site, start = Site(base, base.where, {}), self._gate(())
        ended = self._invoke(entry, as_mapping(self.spec.get("arguments")), {}, Spot(""), start)
        self._hooks(self.spec, site, Spot(""), start, self._gate(ended))
        if not self.nodes:
            self.problems.add(
                f"{base.where}.entrypoint", entry.name, "nothing is in it; write at least one step"
            )

    # ---- nodes ----

    def _gate(self, nodes: Sequence[int]) -> Gate:
        return Gate(self._join, nodes)

    def _join(self, parents: tuple[int, ...]) -> int:
        self._room()
        index = len(self.nodes)
        self.nodes.append(Node(index, NodeKind.JOIN, f"#join{index}", "", parents))
        return index

    def _room(self) -> None:
        if len(self.nodes) + len(self.calls) >= self.limits.max_nodes:
            self.problems.add(
                "spec",
                f"more than {self.limits.max_nodes} tasks",
                "split the workflow, or raise the limit of the reader",
            )
            self.problems.raise_any()

    def _node(self, kind: NodeKind, template: str, spot: Spot, gate: Gate, **more: Unpack[_More]) -> int:
        parents = gate.parents()
        self._room()
        node = Node(
            index=len(self.nodes),
            kind=kind,
            place=spot.place,
            template=template or spot.place,
            parents=parents,
            call=spot.call,
            chance=spot.chance,
            when=spot.when,
            depends=spot.depends,
            fanout=spot.fanout,
            item=spot.item,
            hook=spot.hook,
            continue_on=spot.continue_on,
            **more,
        )
        self.nodes.append(node)
        return node.index

    # ---- calls of templates ----

    def _call(
        self, found: Resolved | AtRunTime, arguments: object, site: Site, spot: Spot, gate: Gate
    ) -> tuple[int, ...]:
        if isinstance(found, AtRunTime):
            return (self._node(NodeKind.AT_RUN_TIME, "", spot, gate, note=", ".join(found.variables)),)
        passed: Json = {}
        if arguments is not None:
            passed = as_mapping(put_in(arguments, site.variables))
        return self._invoke(found, passed, site.variables, spot, gate)

    def _invoke(
        self, found: Resolved, arguments: Json, outer: Variables, spot: Spot, gate: Gate
    ) -> tuple[int, ...]:
        """Call a template with its arguments; `outer` is what an inline template sees as well."""
        template = self._with_defaults(found.template)
        kind = template_type(template)
        is_composite = kind in ("dag", "steps")
        if found.key and is_composite and (found.base.key, found.name) in spot.chain:
            note = f"template {found.name!r} is within itself: how deep is only known at run time"
            return (self._node(NodeKind.RECURSION, found.key, spot, gate, note=note),)
        variables = self._variables(template, arguments, {} if found.key else outer)
        if is_composite:
            return self._composite(found, template, variables, spot, gate)
        if kind == "suspend":
            return (self._node(NodeKind.SUSPEND, found.key, spot, gate),)
        return self._leaf(found, template, variables, spot, gate)

    def _with_defaults(self, template: Json) -> Json:
        known = self._merged.get(id(template))
        if known is None:
            merged = with_defaults(template, as_mapping(self.spec.get("templateDefaults")))
            known = self._merged[id(template)] = (template, merged)
        return known[1]

    def _variables(self, template: Json, arguments: Json, outer: Variables) -> dict[str, str]:
        """Return what a template's variables mean in this call."""
        found = dict(self.variables)
        inputs = as_list(as_mapping(template.get("inputs")).get("parameters"))
        if inputs:
            given = {text_of(item.get("name")): item for item in as_list(arguments.get("parameters"))}
            for parameter in inputs:
                name = text_of(parameter.get("name"))
                value = parameter_value(given[name]) if name in given else None
                if value is None:
                    value = parameter_value(parameter)
                if value is not None:
                    found[f"inputs.parameters.{name}"] = cast("str", put_in(value, self.variables))
        return {**found, **outer} if outer else found

    def _retry(self, template: Json, variables: Variables) -> Retry | None:
        return read_retry(put_in(template.get("retryStrategy") or self.spec.get("retryStrategy"), variables))

    def _leaf(
        self, found: Resolved, template: Json, variables: dict[str, str], spot: Spot, gate: Gate
    ) -> tuple[int, ...]:
        is_pod = template_type(template) not in ("http", "plugin")
        retry = self._retry(template, variables)
        first = {**variables, **_FIRST_ATTEMPT} if retry is not None else variables
        node = self._node(
            NodeKind.POD if is_pod else NodeKind.AGENT,
            found.key,
            spot,
            gate,
            pod=self._plan(found, template, first, spot) if is_pod else None,
            retry=retry,
            daemon=template.get("daemon") is True,
            may_skip_pod=template.get("memoize") is not None,
            locks=locks_of(template, variables),
            inputs=tuple(
                (name.removeprefix("inputs.parameters."), value)
                for name, value in variables.items()
                if name.startswith("inputs.parameters.")
            ),
        )
        return (node,)

    def _plan(self, found: Resolved, template: Json, variables: Variables, spot: Spot) -> PodPlan | None:
        """Return the pod of the first attempt."""
        key = (id(template), id(spot.boundary), spot.on_exit)
        if key not in self._skeletons:
            made = self.pods.skeleton(template, spot.boundary, on_exit=spot.on_exit)
            self._skeletons[key] = (template, spot.boundary, made)
        skeleton = self._skeletons[key][2]
        try:
            return self.pods.plan(skeleton, variables, found.key or spot.place)
        except PatchError as error:
            self.problems.add(f"{found.path}.podSpecPatch", list(skeleton.patches), str(error))
        except InvalidWorkflow as error:
            self.problems.add(found.path, found.name, str(error))
        except InvalidObject as error:
            self.problems.add(found.path, found.name, str(error).partition(": ")[2] or str(error))
        return None

    def _composite(
        self, found: Resolved, template: Json, variables: dict[str, str], spot: Spot, gate: Gate
    ) -> tuple[int, ...]:
        if len(spot.chain) >= _DEEPEST:
            mend = f"templates nest deeper than {_DEEPEST}, the limit of the controller"
            self.problems.add(found.path, found.name, mend)
            return gate.nodes
        is_memoized, parallelism = template.get("memoize") is not None, template.get("parallelism")
        self._room()
        call = len(self.calls)
        self.calls.append(
            Call(
                place=spot.place,
                template=found.key or spot.place,
                caller=spot.call,
                chance=spot.chance,
                when=spot.when,
                depends=spot.depends,
                fanout=spot.fanout,
                retry=self._retry(template, variables),
                parallelism=parallelism if isinstance(parallelism, int) and parallelism > 0 else None,
                fail_fast=template.get("failFast") is True,
                locks=locks_of(template, variables),
                is_memoized=is_memoized,
            )
        )
        within = Spot(
            place=spot.place,
            call=call,
            chance=max(spot.chance, Chance.CONDITIONAL) if is_memoized else spot.chance,
            boundary=found.template,  # without the defaults: so the controller takes constraints from it
            chain=(*spot.chain, (found.base.key, found.name)),
            hook=spot.hook,
            on_exit=spot.on_exit,
        )
        walk = self._dag if template_type(template) == "dag" else self._steps
        return walk(template, Site(found.base, found.path, variables), within, gate)

    def _steps(self, template: Json, site: Site, within: Spot, gate: Gate) -> tuple[int, ...]:
        for number, group in enumerate(cast("list[object]", template["steps"])):
            ended: list[int] = []
            for position, step in enumerate(as_list(group)):
                spot = replace(within, place=f"{within.place}[{number}].{text_of(step.get('name'))}")
                ended += self._task(step, site.within(f"steps[{number}][{position}]"), spot, gate, {})[1]
            if ended:
                gate = self._gate(ended)
        return gate.nodes

    def _dag(self, template: Json, site: Site, within: Spot, gate: Gate) -> tuple[int, ...]:
        tasks = self.dags.read(template, site.path)
        target = put_in(text_of(as_mapping(template["dag"]).get("target")), site.variables)
        targets = tasks.targets(cast("str", target))
        reached = tasks.reached(targets)
        if len(reached) < len(tasks.tasks):
            unreached = tuple(name for name in tasks.tasks if name not in reached)
            self.calls[within.call] = replace(self.calls[within.call], unreached=unreached)
        ways: dict[str, Ways] = {}
        gates: dict[str, Gate] = {}
        groups: dict[str, tuple[int, ...]] = {}
        for name in tasks.order:
            if name not in reached:
                continue
            before, here = tasks.before(name), gate
            if before:
                here = self._gate([node for one in before for node in gates[one].parents()])
            spot = replace(within, place=f"{within.place}.{name}", depends=tasks.depends.get(name))
            at = site.within(f"dag.tasks[{tasks.positions[name]}]")
            task = tasks.tasks[name]
            ways[name], ended = self._task(task, at, spot, here, ways)
            gates[name] = self._gate(ended or here.nodes)
            if is_expanded(task) and ended and _has_hooks(task):
                # A dag runs them once more for the group. Who comes next does not wait for that, and
                # then it happens only if the controller looks at the group again in time.
                sure = Chance.CERTAIN if name in targets else Chance.CONDITIONAL
                chance = max(spot.chance, chance_of(ways[name], is_group=True), sure)
                whole = replace(spot, chance=chance)
                groups[name] = self._hooks(task, at, whole, here, self._gate(ended))
        last = [node for name in targets for node in groups.get(name, gates[name].nodes)]
        return tuple(dict.fromkeys(last))

    # ---- tasks and steps ----

    def _task(
        self, task: Json, site: Site, spot: Spot, gate: Gate, before: Mapping[str, Ways]
    ) -> tuple[Ways, tuple[int, ...]]:
        """Build a task or step.

        Returns:
            the ways in which it may end, and the nodes to wait for after it.
        """
        when = cast("str", put_in(task.get("when") or "", site.variables))
        decided = decide(when)
        fanout = self._fanout(task, site, is_skipped=decided is False)
        found = self._resolve(task, site)
        is_daemon = isinstance(found, Resolved) and self._with_defaults(found.template).get("daemon") is True
        ways = ways_of(spot.depends, before, when=decided, fanout=fanout, is_daemon=is_daemon)
        spot = replace(spot, continue_on=continued(task))
        if fanout is None or not self._room_for_items.take(fanout, task, found):
            chance = max(spot.chance, chance_of(ways, is_group=fanout is not None))
            spot = replace(spot, chance=chance, fanout=fanout, when="" if decided is True else when)
            if fanout is not None:
                spot = replace(spot, place=f"{spot.place}{ANY_ITEM}")
            return ways, self._instance(task, found, site, spot, gate)
        if_all_run = ways_of(spot.depends, before, when=True, fanout=fanout, is_daemon=is_daemon)
        chance_of_any = max(spot.chance, chance_of(if_all_run, is_group=True))
        ended: list[int] = []
        for number, item in enumerate(cast("Sequence[Item]", fanout.items)):
            at = Site(site.base, site.path, {**site.variables, **item.values})
            own = cast("str", put_in(when, item.values))
            chance = _ITEM_CHANCE[decide(own)]
            here = replace(
                spot,
                place=f"{spot.place}#{number}",
                item=item.label,
                when="" if chance is Chance.CERTAIN else own,
                chance=max(chance_of_any, chance),
            )
            again = self._resolve(task, at) if is_open(task) else found
            ended += self._instance(task, again, at, here, gate)
        return ways, tuple(dict.fromkeys(ended))

    def _fanout(self, task: Json, site: Site, *, is_skipped: bool) -> Fanout | None:
        try:
            return read_fanout(task, site.variables)
        except FanoutError as error:
            if not is_skipped:  # where the task is skipped anyway, the controller does not mind
                self.problems.add(f"{site.path}.{error.key}", error.value, str(error))
            return None

    def _resolve(self, holder: Json, site: Site) -> Resolved | AtRunTime | None:
        return self.resolver.resolve(named_with(holder, site.variables), site.base, site.path)

    def _instance(
        self, task: Json, found: Resolved | AtRunTime | None, site: Site, spot: Spot, gate: Gate
    ) -> tuple[int, ...]:
        """Build one instance of a task with its hooks."""
        if found is None:
            return ()
        ended = self._call(found, task.get("arguments"), site, spot, gate)
        return ended if not _has_hooks(task) else self._hooks(task, site, spot, gate, self._gate(ended))

    # ---- hooks ----

    def _hooks(self, holder: Json, site: Site, spot: Spot, start: Gate, end: Gate) -> tuple[int, ...]:
        """Build the hooks of a task or the workflow; return the nodes to wait for after all of it."""
        hooks = as_mapping(holder.get("hooks"))
        beside: list[int] = []
        for name, hook in hooks.items():
            if name != "exit":
                here = _hook_spot(spot, f".hooks.{name}", as_mapping(hook), Hook.DURING)
                beside += self._hook(as_mapping(hook), site.within(f"hooks.{name}"), here, start)
        on_exit = text_of(holder.get("onExit"))
        last: Json = {"template": on_exit} if on_exit else as_mapping(hooks.get("exit"))
        if not last:
            return tuple(dict.fromkeys([*end.nodes, *beside]))
        if not spot.place:  # the workflow's own exit handler waits for its hooks as well
            end = self._gate([*end.nodes, *beside])
        at = site.within("onExit" if on_exit else "hooks.exit")
        ended = self._hook(last, at, _hook_spot(spot, ".onExit", last, Hook.EXIT), end)
        return tuple(dict.fromkeys([*(ended or end.nodes), *beside]))

    def _hook(self, hook: Json, site: Site, spot: Spot, gate: Gate) -> tuple[int, ...]:
        found = self._resolve(hook, site)
        if found is None:
            return ()
        own = as_mapping(hook.get("arguments"))
        has_own = bool(own.get("parameters") or own.get("artifacts"))
        return self._call(found, own if has_own else self.spec.get("arguments"), site, spot, gate)


def _has_hooks(task: Json) -> bool:
    return bool(task.get("hooks") or task.get("onExit"))


def _hook_spot(spot: Spot, name: str, hook: Json, kind: Hook) -> Spot:
    """Return where a hook of what stands at `spot` stands."""
    expression = text_of(hook.get("expression"))
    is_sure = kind is Hook.EXIT and not expression
    return replace(
        spot,
        place=f"{spot.place}{name}",
        chance=spot.chance if is_sure else max(spot.chance, Chance.CONDITIONAL),
        hook=kind,
        on_exit=spot.on_exit or kind is Hook.EXIT,
        when=expression,
        depends=None,
        continue_on=frozenset(),
    )
