"""Facts about the machine and the software, for a run's manifest. What cannot be known says why."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import ttsbench
from ttsbench.records import CodeRevision, Gpu, Hardware, Placement, combined_sha256, sha256_of

SOFTWARE = ("torch", "triton", "numpy", "safetensors", "tokenizers", "soundfile", "soxr")
ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_NUM_THREADS",
)
"""Variables that bear on speed or on numbers."""


def software() -> dict[str, str]:
    """Versions of Python and of the packages that bear on the result; absent ones are left out."""
    versions = {"python": platform.python_version(), "ttsbench": ttsbench.__version__}
    for name in SOFTWARE:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def code_revision() -> CodeRevision:
    """The source that runs: a hash of it, and its commit if it is a source tree."""
    package = Path(ttsbench.__file__).parent
    root, source = package.parent, source_sha256(package)
    if not (root / ".git").exists():
        return _without_commit("installed package, not a source tree", source)
    try:
        revision = _git(root, "rev-parse", "HEAD")
        dirty = bool(_git(root, "status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError) as error:
        return _without_commit(f"git: {error}", source)
    return CodeRevision(revision=revision, dirty=dirty, source_sha256=source)


def source_sha256(package: Path) -> str:
    """One hash for the Python files below `package`, by relative path: it tells two uncommitted states apart."""
    return combined_sha256(
        {p.relative_to(package).as_posix(): sha256_of(p.read_bytes()) for p in package.rglob("*.py")}
    )


def hardware() -> Hardware:
    """CPU, memory and the GPUs torch can see."""
    model, memory = _cpu_model(), _memory_bytes()
    return Hardware(
        cpu_model=model,
        cpu_model_missing=None if model else "the operating system does not tell",
        cpu_cores=os.cpu_count() or 1,
        memory_bytes=memory,
        memory_bytes_missing=None if memory else "the operating system does not tell",
        gpus=_gpus(),
    )


def placement() -> Placement:
    """Cores this process may use, and the variables that were set."""
    known = hasattr(os, "sched_getaffinity")
    return Placement(
        cpu_affinity=tuple(sorted(os.sched_getaffinity(0))) if known else None,
        cpu_affinity_missing=None if known else f"{platform.system()} does not tell",
        environment={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
    )


def _without_commit(why: str, source: str) -> CodeRevision:
    return CodeRevision(revision=None, revision_missing=why, dirty=None, dirty_missing=why, source_sha256=source)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _cpu_model() -> str | None:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor() or None
    names = (line.split(":", 1)[1].strip() for line in path.read_text().splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or None)


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _gpus() -> tuple[Gpu, ...]:
    import torch

    gpus = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        gpus.append(
            Gpu(
                name=properties.name,
                uuid=str(properties.uuid),
                memory_bytes=properties.total_memory,
                driver=None,
                driver_missing="torch does not tell",
            )
        )
    return tuple(gpus)
