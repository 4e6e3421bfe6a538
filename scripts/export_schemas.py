"""Write results_schema/<kind>-v<version>.schema.json from the record types; --check only compares."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ttsbench.records import write_atomic
from ttsbench.records.schema import KINDS, schema_name, schema_of

FOLDER = Path(__file__).resolve().parent.parent / "results_schema"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs from the types")
    check = parser.parse_args().check
    stale = []
    for kind in KINDS:
        path = FOLDER / f"{schema_name(kind)}.schema.json"
        data = (json.dumps(schema_of(kind), indent=2, ensure_ascii=False) + "\n").encode()
        if path.exists() and path.read_bytes() == data:
            continue
        stale.append(path.name)
        if not check:
            write_atomic(path, data)
    for name in stale:
        print(f"{name}: {'differs from the types' if check else 'written'}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
