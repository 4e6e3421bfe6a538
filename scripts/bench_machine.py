"""The machine a benchmark ran on, as plain JSON values, with torch and nvidia-smi alone. What is unknown is null."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

COMMIT = "TTSBENCH_COMMIT"
"""Names the commit where the source came without its git folder."""
GPU_FIELDS = ("name", "uuid", "driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit", "memory.total")
CLOCK_FIELDS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "clocks_event_reasons.active")


def machine(root: Path) -> dict[str, Any]:
    """Hardware, software and source."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpu": nvidia_smi(GPU_FIELDS),
        "clocks": clocks(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": _version("triton"),
        "numpy": _version("numpy"),
        **commit(root),
        "source_sha256": source_sha256(root / "ttsbench"),
    }


def clocks() -> dict[str, str] | None:
    """What the GPU runs at now."""
    return nvidia_smi(CLOCK_FIELDS)


def nvidia_smi(names: tuple[str, ...]) -> dict[str, str] | None:
    """Fields of the first GPU, as nvidia-smi prints them; None where there is none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(zip(names, (value.strip() for value in done.stdout.strip().split(",")), strict=False))


def commit(root: Path) -> dict[str, Any]:
    """Commit and whether files differ from it; from the environment where there is no git folder."""
    if COMMIT in os.environ:
        return {"commit": os.environ[COMMIT], "dirty": None}
    try:
        head, status = (
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": head, "dirty": bool(status)}


def source_sha256(package: Path) -> str:
    """The hash that a run's manifest has (`experiment.host.source_sha256`), without the packages that one imports."""
    files = {
        path.relative_to(package).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in package.rglob("*.py")
    }
    text = json.dumps(files, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
