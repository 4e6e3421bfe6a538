"""What every record shares: frozen, closed, strict, and honest about what is missing.

Three rules hold for all of them. An unknown field is an error. A value is never coerced ("1" is not 1) and never NaN. A
field `x` that has a companion `x_missing` is null exactly when the companion says why: missing is null with a reason,
never zero. Optional fields without a companion are absent by choice, and their line of doc says what null means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)


def _in_utc(value: datetime) -> datetime:
    if value.utcoffset() != timedelta(0):
        raise ValueError(f"expected a time in UTC, got offset {value.utcoffset()}")
    return value


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Reason = Annotated[str, StringConstraints(min_length=1)]
UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class Record(BaseModel):
    """Base of every record and of every part of one."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )

    _companions: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Fields that may be missing, each with the one that says why. Found once: traces are millions of records."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        names = cls.model_fields
        cls._companions = tuple((name, f"{name}_missing") for name in names if f"{name}_missing" in names)

    @model_validator(mode="after")
    def _missing_means_null_with_a_reason(self) -> Self:
        for name, companion in self._companions:
            value, reason = getattr(self, name), getattr(self, companion)
            if (value is None) != (reason is not None):
                state = "null without a reason" if value is None else "present, yet a reason says it is missing"
                raise ValueError(f"{name} is {state}: set exactly one of {name} and {companion}")
        return self

    def revised(self, **changes: object) -> Self:
        """A validated copy with some fields replaced (pydantic's own `model_copy` does not validate)."""
        unknown = sorted(changes.keys() - type(self).model_fields.keys())
        if unknown:
            raise ValueError(f"{type(self).__name__} has no field {', '.join(unknown)}")
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate(fields | changes)


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def sha256_of(data: bytes) -> str:
    """SHA-256 of some bytes, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def canonical_sha256(value: JsonValue) -> str:
    """SHA-256 of a JSON value that does not depend on key order or spacing. NaN and infinity raise ValueError."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return sha256_of(text.encode())


def combined_sha256(files: Mapping[str, str]) -> str:
    """One hash for a set of files: over their names and hashes, in name order."""
    return canonical_sha256(dict(files))
