"""The programs of the test cluster: from which pinned Go module each is built, and how."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

GO_FOLDER = Path(__file__).resolve().parent.parent / "go"

KUBERNETES_VERSION = "1.37.2"
ETCD_VERSION = "3.7.3"
KWOK_VERSION = "0.8.0"
ARGO_VERSION = "4.0.5"

_MAJOR, _MINOR, _PATCH = KUBERNETES_VERSION.split(".")

_KUBERNETES_STAMPS = {
    "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES_VERSION}",
    "k8s.io/component-base/version.gitMajor": _MAJOR,
    "k8s.io/component-base/version.gitMinor": _MINOR,
}


@dataclass(frozen=True)
class Program:
    """One program and what decides its content.

    Attributes:
        name: The file's name, as its own project calls it.
        version: The version of its project.
        module_folder: The folder under `testbed/go` with the go.mod and go.sum that pin everything it is made
            of.
        package: The Go package of its `main`; `./…` is a package of ours in the module folder.
        stamped: Go variables set when linking, so that the program knows its version.
        patched_module: The path of a module that is built from a copy with the files of `patch/` laid over
            it.
    """

    name: str
    version: str
    module_folder: Path
    package: str
    stamped: dict[str, str] = field(default_factory=dict[str, str])
    patched_module: str | None = None

    def sources(self) -> Iterator[Path]:
        """The files of ours that decide what is built."""
        yield self.module_folder / "go.mod"
        yield self.module_folder / "go.sum"
        if self.package.startswith("./"):
            yield from sorted((self.module_folder / self.package).rglob("*.go"))
        if self.patched_module is not None:
            yield from sorted(path for path in (self.module_folder / "patch").rglob("*") if path.is_file())


def _kubernetes(name: str, package: str | None = None) -> Program:
    return Program(
        name=name,
        version=KUBERNETES_VERSION,
        module_folder=GO_FOLDER / "kubernetes",
        package=package or f"k8s.io/kubernetes/cmd/{name}",
        stamped=_KUBERNETES_STAMPS,
    )


def _argo(name: str) -> Program:
    module = "github.com/argoproj/argo-workflows/v4"
    return Program(
        name=name,
        version=ARGO_VERSION,
        module_folder=GO_FOLDER / "argo",
        package=f"{module}/cmd/{name}",
        stamped={f"{module}.version": f"v{ARGO_VERSION}"},
        patched_module=module,
    )


PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", ETCD_VERSION, GO_FOLDER / "etcd", "go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubelet"),
        _kubernetes("kubectl"),
        # Ours, with kube-scheduler's plugins linked in; one of them asks which version it is in.
        Program(
            name="filter-oracle",
            version=KUBERNETES_VERSION,
            module_folder=GO_FOLDER / "oracle",
            package="./",
            stamped=_KUBERNETES_STAMPS,
        ),
        Program("kwok", KWOK_VERSION, GO_FOLDER / "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        _argo("workflow-controller"),
        _argo("argoexec"),
    )
}
