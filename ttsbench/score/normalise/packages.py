"""Packages that a text rule runs: not needed by others, so loaded when the rule is, and of exactly one version."""

from __future__ import annotations

import importlib.metadata

from ttsbench.core import InvalidInput, Problem


def require(distribution: str, version: str) -> None:
    """Raises InvalidInput, saying what to install, unless just that version of a distribution is installed."""
    try:
        got = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        got = "not installed"
    if got != version:
        raise missing(distribution, version, got)


def missing(distribution: str, version: str, got: str) -> InvalidInput:
    """The error for a package that is absent, of another version, or broken: `got` says which."""
    hint = f"pip install {distribution}=={version}"
    return InvalidInput(Problem("text rule", f"the package {distribution}=={version}", got, hint))
