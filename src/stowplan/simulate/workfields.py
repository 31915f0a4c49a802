"""The `work` of a task or a background tenant in Stowplan's YAML, as a whole or phase by phase.

As a whole it is what a trace would hold, and is translated by the same rules (`work_rules`)::

    work: {runtime: 90s, cores: 1.8, read: 2Gi, written: 300Mi, memory: 1500Mi}

Phase by phase it is the physical profile itself (`core.domain.work`)::

    work:
      memory: 1500Mi
      phases:
        - {duration: 60s, cores: 1, dram: 4Gi, latencyShare: 0.3}
        - {duration: 20s, cores: 0.1, diskWrite: 100Mi}

and, for a worker of a training gang, what it does over and over::

      training: {steps: 1000, compute: 300ms, gradients: 440M, overlap: 2.1}
"""

from __future__ import annotations

import msgspec

from stowplan.core.domain import Phase, Training, WorkProfile
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.fields import (
    MOST_BYTES,
    MOST_CORES,
    MOST_RATE,
    Quantity,
    Strict,
    amount,
    seconds,
)
from stowplan.simulate.work_rules import Usage, work_profile

__all__ = ["PhaseFields", "WorkFields", "work_of"]


class PhaseFields(Strict):
    """A stretch with constant demands; rates per second alone on the reference machine."""

    duration: Quantity
    cores: Quantity = 1
    dram: Quantity = 0
    disk_read: Quantity = 0
    disk_write: Quantity = 0
    disk_queue: Quantity = 131072
    disk_request: Quantity = 131072
    net_up: Quantity = 0
    net_down: Quantity = 0
    pcie: Quantity = 0
    latency_share: float = 0.0


class TrainingFields(Strict):
    """A training job, as each worker of its gang does it."""

    steps: float
    compute: Quantity
    gradients: Quantity
    overlap: float = 1.0


class WorkFields(Strict):
    """Either `runtime` with totals, or `phases`; with phases also what the task trains."""

    runtime: Quantity | None = None
    cores: Quantity | None = None
    read: Quantity | None = None
    written: Quantity | None = None
    memory: Quantity = 0
    cache: Quantity | None = None
    phases: list[PhaseFields] | None = None
    training: TrainingFields | None = None
    machine_factors: dict[str, float] = msgspec.field(default_factory=dict[str, float])


def work_of(
    fields: WorkFields,
    where: str,
    *,
    cpu_limit_cores: float | None = None,
    memory_limit_bytes: float | None = None,
) -> WorkProfile:
    """Return the work that `fields` describe; `where` is their path in messages.

    Raises:
        InvalidFile: both or neither of `runtime` and `phases` are given, or a phase list is empty.
        InvalidQuantity: a value is unusable.
    """
    factors = tuple(sorted(fields.machine_factors.items()))
    for machine, factor in factors:
        if not 0.0 < factor <= 1000.0:
            raise InvalidFile(
                f"{where}.machineFactors.{machine}: is {factor}; give a time factor above 0, at most 1000"
            )
    memory_bytes = amount(fields.memory, f"{where}.memory", most=MOST_BYTES)
    totals = (fields.cores, fields.read, fields.written)
    try:
        if fields.phases is not None:
            if fields.runtime is not None or any(total is not None for total in totals):
                raise InvalidFile(
                    f"{where}: gives phases and runtime, cores, read or written; give one of the two forms"
                )
            phases = tuple(
                _phase(item, f"{where}.phases[{index}]") for index, item in enumerate(fields.phases)
            )
            if not phases:
                raise InvalidFile(f"{where}.phases: is empty; give at least one phase")
            cache = fields.cache if fields.cache is not None else 0
            return WorkProfile(
                phases=phases,
                anon_bytes=memory_bytes,
                cache_bytes=amount(cache, f"{where}.cache", most=MOST_BYTES),
                memory_limit_bytes=memory_limit_bytes,
                cpu_limit_cores=cpu_limit_cores,
                machine_factors=factors,
                training=_training(fields.training, f"{where}.training"),
            )
        if fields.runtime is None:
            raise InvalidFile(f"{where}: gives neither runtime nor phases; say how long the task takes alone")
        _refuse_with_runtime(fields, where)
        cores, read, written = totals
        usage = Usage(
            runtime_s=seconds(fields.runtime, f"{where}.runtime"),
            mean_cores=amount(1 if cores is None else cores, f"{where}.cores", most=MOST_CORES),
            read_bytes=amount(read or 0, f"{where}.read", most=MOST_BYTES),
            written_bytes=amount(written or 0, f"{where}.written", most=MOST_BYTES),
            memory_bytes=memory_bytes,
        )
        return work_profile(
            usage,
            memory_limit_bytes=memory_limit_bytes,
            cpu_limit_cores=cpu_limit_cores,
            machine_factors=factors,
        )
    except InvalidInput as error:
        if str(error).startswith(where):
            raise
        raise InvalidFile(f"{where}: {error}") from None


def _refuse_with_runtime(fields: WorkFields, where: str) -> None:
    if fields.cache is not None:
        raise InvalidFile(f"{where}.cache: follows from read and written; give it with phases only")
    if fields.training is not None:
        raise InvalidFile(f"{where}.training: goes with phases; say by them what a worker needs")


def _training(fields: TrainingFields | None, where: str) -> Training | None:
    if fields is None:
        return None
    return Training(
        steps=fields.steps,
        compute_s=seconds(fields.compute, f"{where}.compute"),
        gradient_bytes=amount(fields.gradients, f"{where}.gradients", most=MOST_BYTES),
        overlap=fields.overlap,
    )


def _phase(fields: PhaseFields, where: str) -> Phase:
    def rate(value: Quantity, key: str) -> float:
        return amount(value, f"{where}.{key}", most=MOST_RATE)

    if not 0.0 <= fields.latency_share <= 1.0:
        raise InvalidFile(f"{where}.latencyShare: is {fields.latency_share}; give a share between 0 and 1")
    return Phase(
        work_s=seconds(fields.duration, f"{where}.duration"),
        cpu_cores=amount(fields.cores, f"{where}.cores", most=MOST_CORES),
        dram_bytes_per_s=rate(fields.dram, "dram"),
        disk_read_bytes_per_s=rate(fields.disk_read, "diskRead"),
        disk_write_bytes_per_s=rate(fields.disk_write, "diskWrite"),
        disk_queue_bytes=rate(fields.disk_queue, "diskQueue"),
        disk_request_bytes=rate(fields.disk_request, "diskRequest"),
        nic_up_bytes_per_s=rate(fields.net_up, "netUp"),
        nic_down_bytes_per_s=rate(fields.net_down, "netDown"),
        pcie_bytes_per_s=rate(fields.pcie, "pcie"),
        latency_share=fields.latency_share,
    )
