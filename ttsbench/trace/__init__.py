"""Frame traces: which codec frames each emitted chunk carried, and whether every frame came out exactly once."""

from ttsbench.trace.audit import Emission, FrameAudit, Request, audit_request
from ttsbench.trace.bound import upper_bound

__all__ = ["Emission", "FrameAudit", "Request", "audit_request", "upper_bound"]
