"""Which tile of a product a program computes: a rule, and a table of what was faster than the rule.

At few rows a product is bound by reading its weight, at many by how often programs read each other's rows and columns
from the L2 cache; at all sizes a launch must keep most multiprocessors busy for the few microseconds that it has. A
program takes at most 104 KB of shared memory, so that two launches that overlap find a place on one multiprocessor.

Shapes: N rows, K width of a row, M outputs (of a gated product: of both halves together).
"""

from __future__ import annotations

from dataclasses import dataclass

MULTIPROCESSORS = 132
"""Of an H100 or H200; on another device the choice may not be the best one, and is still right."""


@dataclass(frozen=True)
class Share:
    """A program owns `rows` x `columns` outputs; a gated program as many columns of either half."""

    rows: int
    columns: int

    def count(self, rows: int, outputs: int) -> int:
        """Programs, or groups of programs, for `rows` x `outputs`."""
        return -(-rows // self.rows) * -(-outputs // self.columns)


@dataclass(frozen=True)
class Tile(Share):
    """`terms` of each sum at a time; all numbers are powers of two but `stages`.

    `split` programs share the sums of one tile. `blocks`: tensor blocks are moved by the memory engine (TMA) rather
    than by the threads.
    """

    terms: int
    warps: int
    stages: int
    split: int = 1
    blocks: bool = False


@dataclass(frozen=True)
class EarlyTile(Share):
    """A program has all weights of its outputs before it waits for the rows.

    `slices` stretches of `terms` are added up side by side, as often as the width of a row holds them.
    """

    terms: int = 128
    slices: int = 8
    warps: int = 4

    @property
    def ahead(self) -> int:
        """Steps whose rows are in registers at the same time: 64 registers a thread or 96, at the defaults."""
        return max(1, 24 // self.rows)


FLOAT32 = Tile(32, 32, 32, warps=4, stages=2)
"""For exact float32, which has no matrix unit: it is for comparisons."""

EARLY_ROWS = 16
EARLY_WEIGHTS = 1 << 15
"""Of one program: 64 KB."""
SMALL_WEIGHT = 13 << 19
"""Terms of a weight, 13 MB, up to which a product is over so soon that its weight must be on its way before it begins:
into registers at few rows, else into the L2 cache. Larger ones only disturb the product before: the gates of the 1.7B
talker at 64 rows take 17.2 us a launch without, 21.2 with fetching."""

TUNED: dict[tuple[int, int, int, bool], Share] = {
    (32, 1024, 2048, False): EarlyTile(16, 16),
    (32, 4096, 1024, False): Tile(32, 64, 128, warps=4, stages=4, blocks=True),
    (64, 4096, 2048, False): Tile(64, 16, 128, warps=4, stages=5, blocks=True),
    (64, 6144, 1024, True): Tile(64, 16, 128, warps=4, stages=4, blocks=True),
    (64, 12288, 2048, True): Tile(64, 16, 128, warps=4, stages=3, blocks=True),
    (128, 1024, 2048, False): Tile(64, 32, 128, warps=4, stages=4, blocks=True),
    (128, 12288, 2048, True): Tile(64, 32, 64, warps=4, stages=4, blocks=True),
}
"""(rows of the bucket, M, K, gated) -> tile, where the rule's is another; see `choose` for the buckets."""

BUCKETS = (8, 16, 32, 64, 128)
"""More rows than the last take its tiles, more than once."""


def choose(rows: int, outputs: int, width: int, gated: bool = False, float32: bool = False) -> Share:
    """The tile for N = `rows`, M = `outputs`, K = `width`."""
    if float32:
        return FLOAT32
    bucket = bucket_of(rows)
    return TUNED.get((bucket, outputs, width, gated)) or by_rule(bucket, outputs, width, gated)


def bucket_of(rows: int) -> int:
    """The rows whose tile N = `rows` take."""
    return next((size for size in BUCKETS if rows <= size), BUCKETS[-1])


def by_rule(bucket: int, outputs: int, width: int, gated: bool) -> Share:
    """Weights early where there are few rows and a program's share is small, a loop in all other cases."""
    return _early(bucket, outputs, width, gated) or _looped(bucket, outputs, width, gated)


def _early(bucket: int, outputs: int, width: int, gated: bool) -> EarlyTile | None:
    """As many columns as registers hold the weights of, fewer where too few programs would have something to do."""
    most = EARLY_WEIGHTS // (width * (1 + gated))
    columns = 32 if most >= 32 else 16 if most >= 16 else 8
    tile = EarlyTile(max(8, bucket), columns)
    if bucket > EARLY_ROWS or most < 8 or outputs * width > SMALL_WEIGHT or width % (tile.terms * tile.slices):
        return None
    while tile.columns > 8 and tile.count(bucket, outputs // (1 + gated)) < MULTIPROCESSORS // 2 - 2:
        tile = EarlyTile(tile.rows, tile.columns // 2)
    return tile


def _looped(bucket: int, outputs: int, width: int, gated: bool) -> Tile:
    """Rows padded to 64, which the matrix unit multiplies in one go, but for a few."""
    few = bucket <= EARLY_ROWS
    size, columns = (16, 32 if gated else 64) if few else (64, 32)
    terms, stages = (128, 5 if few else 3 if gated else 4) if width >= 128 else (32, 2)
    while columns > 16 and -(-outputs // (1 + gated) // columns) < MULTIPROCESSORS // 8:
        columns //= 2
    tiles = Tile(size, columns, terms, 4, stages).count(bucket, outputs // (1 + gated))
    long = width > 2048 or (width == 2048 and tiles < MULTIPROCESSORS // 2)
    split = 2 if long and outputs <= width else 1
    return Tile(size, columns, terms, 4, stages, split, blocks=width % 8 == 0 and width >= terms)
