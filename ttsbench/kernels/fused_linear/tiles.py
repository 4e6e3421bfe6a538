"""Which tile of a product a program computes: a table of what was fastest, and a rule for all other shapes.

At few rows a product is bound by reading its weight, at many by how often programs read each other's rows and columns
from the L2 cache; at all sizes a launch must keep most multiprocessors busy for the few microseconds that it has.

Shapes: N rows, K width of a row, M outputs (of a gated product: of both halves together).
"""

from __future__ import annotations

from dataclasses import dataclass

MULTIPROCESSORS = 132
"""Of an H100 or H200; on another device the choice may not be the best one, and is still right."""


@dataclass(frozen=True)
class Tile:
    """A program owns `rows` x `columns` outputs and takes `terms` of each sum at a time; all are powers of two.

    A gated program owns as many columns of either half. `split` programs share the sums of one tile. `blocks`: tensor
    blocks are moved by the memory engine (TMA) rather than by the threads.
    """

    rows: int
    columns: int
    terms: int
    warps: int
    stages: int
    split: int = 1
    blocks: bool = False
    fetch: bool = True
    early: int = 0
    slices: int = 1
    late: bool = False

    def count(self, rows: int, outputs: int) -> int:
        """Tiles of `rows` x `outputs`."""
        return -(-rows // self.rows) * -(-outputs // self.columns)


FLOAT32 = Tile(32, 32, 32, warps=4, stages=2)
"""For exact float32, which has no matrix unit: it is for comparisons."""

TUNED: dict[tuple[int, int, int, bool], Tile] = {
    (128, 1024, 2048, False): Tile(64, 64, 128, warps=4, stages=4, split=4, blocks=True),
    (128, 1024, 3072, False): Tile(64, 64, 128, warps=4, stages=6, split=2, blocks=True),
    (128, 4096, 1024, False): Tile(64, 64, 128, warps=4, stages=6, blocks=True),
    (128, 6144, 1024, True): Tile(64, 32, 128, warps=4, stages=3, blocks=True),
    (128, 2048, 1024, False): Tile(64, 32, 64, warps=4, stages=4),
    (64, 1024, 2048, False): Tile(64, 64, 128, warps=4, stages=4, split=4, blocks=True),
    (64, 1024, 3072, False): Tile(64, 64, 128, warps=4, stages=6, split=4, blocks=True),
    (64, 4096, 1024, False): Tile(64, 32, 64, warps=4, stages=4),
    (64, 6144, 1024, True): Tile(64, 32, 128, warps=4, stages=3, blocks=True),
    (64, 2048, 1024, False): Tile(64, 32, 64, warps=4, stages=4, split=2),
}
"""(rows of the bucket, M, K, gated) -> tile; see `choose` for the buckets."""

BUCKETS = (8, 16, 32, 64, 128)
"""More rows than the last take its tiles, more than once."""


def choose(rows: int, outputs: int, width: int, gated: bool = False, float32: bool = False) -> Tile:
    """The tile for N = `rows`, M = `outputs`, K = `width`."""
    if float32:
        return FLOAT32
    bucket = next((size for size in BUCKETS if rows <= size), BUCKETS[-1])
    return TUNED.get((bucket, outputs, width, gated)) or by_rule(bucket, outputs, width, gated)


def by_rule(bucket: int, outputs: int, width: int, gated: bool) -> Tile:
    """Wide enough to reuse what is read, narrow enough for a program on every second multiprocessor."""
    size = min(bucket, 64 if outputs <= 2048 else 128)
    warps = 8 if size == 128 else 4
    columns = outputs // 2 if gated else outputs
    tile = Tile(size, 64, 64, warps, 4)
    if tile.count(bucket, columns) < MULTIPROCESSORS // 2:
        tile = Tile(size, 32, 64, warps, 4)
    steps = -(-width // tile.terms)
    split = min(MULTIPROCESSORS // tile.count(bucket, columns), steps // 8, 4)
    return Tile(tile.rows, tile.columns, tile.terms, tile.warps, tile.stages, 2 if split >= 2 and not gated else 1)
