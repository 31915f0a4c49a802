"""`stowplan plan`: what would be written on workflows before they run, and why."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from stowplan.cli.documents import read_documents
from stowplan.cli.exit_codes import BAD_INPUT
from stowplan.cli.terminal import say, write
from stowplan.cli.yaml_text import yaml_text
from stowplan.core.domain import milli_value, value
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.kube.argo import ArgoObject, MalformedWorkflow, Shelf, is_argo_object, open_object
from stowplan.kube.plan import (
    History,
    Mode,
    Plan,
    PlanOptions,
    Preference,
    Referencing,
    Requests,
    history_of,
    plan_object,
)
from stowplan.observe.history import DurationModel, HistoryStore

__all__ = ["PlanRequest", "run_plan"]

_RESOURCES: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The command line of `plan`; `output` is yaml, patch or why."""

    files: Sequence[str]
    scheduler_name: str
    mode: str
    priority_classes: Sequence[str]
    requests: str
    preferences: Sequence[str]
    referencing: str
    allowed_fields: Sequence[str]
    history: str
    output: str

    def options(self) -> PlanOptions:
        """Return the options of the plan.

        Raises:
            InvalidInput: one of them cannot be used.
        """
        return PlanOptions(
            mode=Mode(self.mode),
            scheduler_name=self.scheduler_name,
            priority_classes=tuple(self.priority_classes),
            requests=_requests(self.requests),
            preferences=tuple(_preference(text) for text in self.preferences),
            referencing=Referencing(self.referencing),
            allowed_fields=frozenset(self.allowed_fields),
        )


def run_plan(request: PlanRequest) -> int:
    """Plan every Argo object of the files, write what is asked for, and return the exit code.

    Nothing is written to standard output if anything is wrong; each fault is a line on standard error.

    Raises:
        InvalidInput: an option cannot be used, or a file cannot be read.
    """
    options = request.options()
    history = _history(request.history)
    documents = list(read_documents(request.files))
    complaints: list[str] = []
    opened = _opened(documents, complaints)
    plans: dict[int, Plan] = {}
    source = Shelf(opened.values())
    # Templates first: what is written on them need not be written on the workflows that refer to them.
    for is_template in (True, False):
        for number, item in opened.items():
            if item.is_template is is_template:
                try:
                    plans[number] = plan_object(item.raw, options, source=source, history=history)
                except InvalidInput as error:
                    complaints += _told(documents[number][1], error)
        source = Shelf(open_object(plan.result) for plan in plans.values())
    if complaints:
        for line in complaints:
            sys.stderr.write(f"error: {' '.join(line.split())}\n")
        return BAD_INPUT
    _show(documents, plans, request.output)
    return 0


def _requests(text: str) -> Requests | None:
    """Return default requests from `cpu=100m,memory=128Mi`; None from `none`.

    Raises:
        InvalidInput: the text is of another form, or a quantity cannot be used.
    """
    if text == "none":
        return None
    given: dict[str, str] = {}
    for part in text.split(","):
        name, _, quantity = part.partition("=")
        given[name] = quantity
    if set(given) != set(_RESOURCES):
        raise InvalidInput(f"--requests {text}: write cpu=QUANTITY,memory=QUANTITY, or none")
    try:
        return Requests(cpu_milli=milli_value(given["cpu"]), memory_bytes=value(given["memory"]))
    except InvalidInput as error:
        raise InvalidInput(f"--requests {text}: {error}") from None


def _preference(text: str) -> Preference:
    """Return a preference from `LABEL=VALUE,VALUE`, with `:WEIGHT` behind it if wanted.

    Raises:
        InvalidInput: the text is of another form, or the API server would refuse what it says.
    """
    label, equals, rest = text.partition("=")
    values, colon, weight = rest.partition(":")
    if not equals or (colon and not (weight.isascii() and weight.isdigit())):
        raise InvalidInput(f"--prefer {text}: write LABEL=VALUE,VALUE or LABEL=VALUE,VALUE:WEIGHT")
    parts = tuple(part for part in values.split(",") if part)
    try:
        return Preference(label, parts, int(weight)) if colon else Preference(label, parts)
    except InvalidInput as error:
        raise InvalidInput(f"--prefer {text}: {error}") from None


def _history(url: str) -> History:
    """Return what the history at `url` tells of durations; without a URL, nothing.

    Raises:
        InvalidFile: the file is not there; it would be made, and a slip in its name would pass unseen.
        HistoryError: it cannot be read.
    """
    if not url:
        return History()
    file = url.removeprefix("sqlite:///")
    if file != url and not Path(file).is_file():
        raise InvalidFile(f"--history {url}: there is no file {file}; name the history of the scheduler")
    store = HistoryStore.open(url)
    try:
        return history_of(DurationModel(store.observations(time.time())))
    finally:
        store.close()


def _opened(documents: Sequence[tuple[Any, str]], complaints: list[str]) -> dict[int, ArgoObject]:
    """Return the Argo objects by number; what cannot be a Kubernetes object becomes a complaint."""
    opened: dict[int, ArgoObject] = {}
    for number, (document, where) in enumerate(documents):
        raw: Mapping[str, object] = (
            cast("Mapping[str, object]", document) if isinstance(document, Mapping) else {}
        )
        if not isinstance(raw.get("kind"), str):
            complaints.append(f"{where}: is no Kubernetes object; write apiVersion, kind and metadata")
            continue
        items = raw.get("items")
        if isinstance(items, list) and any(
            isinstance(item, Mapping) and is_argo_object(cast("Mapping[str, object]", item))
            for item in cast("list[object]", items)
        ):
            complaints.append(
                f"{where}: is a {raw['kind']} with workflows in it; write each as a document of its own"
            )
        elif is_argo_object(raw):
            try:
                opened[number] = open_object(raw)
            except InvalidInput as error:
                complaints += _told(where, error)
    return opened


def _told(where: str, error: InvalidInput) -> list[str]:
    """Return what is wrong with a document, one line per fault."""
    if isinstance(error, MalformedWorkflow):
        return [f"{where}: {error.owner}: {problem}" for problem in error.problems]
    return [f"{where}: {error}"]


def _show(documents: Sequence[tuple[Any, str]], plans: Mapping[int, Plan], output: str) -> None:
    planned = [plan for _, plan in sorted(plans.items())]
    if output == "patch":
        objects = [{"object": plan.title, "patch": plan.patch(), "why": plan.why()} for plan in planned]
        write(json.dumps(objects, indent=2, ensure_ascii=False))
        return
    tell = write if output == "why" else say
    for number, (document, where) in enumerate(documents):
        if number in plans:
            tell(f"{where}: {plans[number].title}")
            for reason in plans[number].why():
                tell(f"  {reason}")
        else:
            tell(f"{where}: {document['kind']} is passed through as it is")
    if output == "yaml":
        results = [
            plans[number].result if number in plans else document
            for number, (document, _) in enumerate(documents)
        ]
        sys.stdout.write(yaml_text(results))
