import json, sys, time
from functools import partial
t0 = time.perf_counter()
import torch
from scripts.bench_ceilings import timed
from scripts.bench_parts import Bench, void
from scripts.random_model import SHAPES
from scripts.tune_fused_linear import PRODUCTS
import ttsbench.engine.frame as F, ttsbench.engine.program as PR, ttsbench.engine.predictor as P
import ttsbench.kernels.fused_linear as FL
from ttsbench.kernels.fused_linear import tiles
def say(**k): print(json.dumps(k), flush=True)
F.predictors = lambda packed, cache, rows, reserved=0: [P.LayeredPredictor(packed, cache, rows)]
PR.talker_pass = lambda *a: None
FL.LIBRARY_ROWS = range(24, 24); FL.LIBRARY_WIDTH = 1 << 30
FL._fused = lambda x, weight: x.is_cuda and len(x) <= FL.MOST_ROWS
best = {}
for name, rows, us, tile in json.load(open(sys.argv[1])):
    product = next(p for p in PRODUCTS if p.name == name)
    key = (rows, product.outputs, product.width, product.kind == "gated")
    if key not in best or us < best[key][0]: best[key] = us, tiles.Tile(**tile)
tiles.TUNED.update({key: tile for key, (us, tile) in best.items()})
with torch.inference_mode():
    bench = Bench(SHAPES["1.7b"], 64, 64, torch.device("cuda"))
    say(built=round(time.perf_counter() - t0, 1))
    runner, program = bench.runner, bench.runner.program
    for rows in (8, 64, 32, 16):
        runner.rows.write(bench.plan(rows), rows, rows)
        with runner.context(): runner.control.send()
        torch.cuda.synchronize()
        hidden = torch.randn(rows, 2048, device="cuda").bfloat16()
        for name, part in (("frame", lambda: program.frame.run(hidden)), ("talker", lambda: program.decode_talker(rows))):
            bench.parts.capture((name, rows), partial(void, part))
            with runner.context(): us = timed(partial(bench.parts.replay, (name, rows)))
            say(part=name, rows=rows, us=round(us, 1), at=round(time.perf_counter() - t0, 1))
