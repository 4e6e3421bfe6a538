"""Where a run happened: code, software, machine, pinning."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ttsbench.records.base import Count, Reason, Record, Sha256


class CodeRevision(Record):
    """The source that ran."""

    revision: str | None
    """Commit of the source tree."""
    revision_missing: Reason | None = None
    """Why there is no commit, such as an installed wheel."""
    dirty: bool | None
    """Whether the tree had uncommitted changes."""
    dirty_missing: Reason | None = None
    """Why that is unknown."""
    source_sha256: Sha256
    """One hash for the package's own Python files as they were (`combined_sha256`, by path inside the package)."""


class Gpu(Record):
    """One GPU the run could use."""

    name: str
    """Product name."""
    uuid: str | None
    """Identity of this very device; indices change, UUIDs do not."""
    uuid_missing: Reason | None = None
    """Why the UUID is null."""
    memory_bytes: Count
    """Total device memory."""
    driver: str | None
    """Driver version."""
    driver_missing: Reason | None = None
    """Why the driver version is null."""


class Hardware(Record):
    """The machine."""

    cpu_model: str | None
    """CPU name."""
    cpu_model_missing: Reason | None = None
    """Why the CPU name is null."""
    cpu_cores: Annotated[int, Field(gt=0)]
    """Logical cores of the machine."""
    memory_bytes: Count | None
    """Main memory."""
    memory_bytes_missing: Reason | None = None
    """Why the memory size is null."""
    gpus: tuple[Gpu, ...]
    """GPUs the run could use; empty on a machine without one."""


class Placement(Record):
    """What the process was tied to."""

    cpu_affinity: tuple[int, ...] | None
    """Cores the process was allowed to run on."""
    cpu_affinity_missing: Reason | None = None
    """Why that is unknown, such as an operating system that does not tell."""
    environment: dict[str, str]
    """Environment variables that bear on speed or numbers, such as OMP_NUM_THREADS; those that were set."""
