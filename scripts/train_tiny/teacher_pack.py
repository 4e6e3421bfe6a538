"""Makes the TEACHER folder: Kokoro-82M with torch names, and the style tables of its voices.

    python -m scripts.train_tiny.teacher_pack WORK MODULES OUT

The weights that are published as a package are an ONNX export whose large matrices are int8. A node of that
graph is named after the torch module it came from, so every weight finds its way back. The matrices stay int8 here:
`teacher = (stored - zero) * scale`, one zero and one scale a tensor or a row.

WORK     four parts `model-1.bin` ... `model-4.bin` of the export and `voices/*.bin`, as `make_mini_en/README.md` says
MODULES  the unpacked wheel `kokoro` 0.9.4 (Apache-2.0): its `istftnet.py` and `modules.py` are copied
OUT      part1 (weights, modules, voices.npz) and part2 (weights): two files of at most 45 MB, below what many hosts
         take for one file

Needs `onnx`.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from scripts.train_tiny.voices import TRAIN, UNSEEN

MODEL_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"

STYLE_ROWS = 112
"""A style table has a row for every symbol count; no sentence of ours has more symbols."""
STYLE_WIDTH = 256

LEFT_OUT = re.compile(r"(query|key|value|dense|ffn|ffn_output)_\d+\.weight|\.istft\.")
"""The text model's twelve layers are one: names with a number are its repeats. The inverse STFT is torch's own."""

Tensors = dict[str, np.ndarray]


def joined_model(work: Path) -> bytes:
    """The export's bytes. Raises SystemExit when they are not the published ones."""
    model = b"".join((work / f"model-{part}.bin").read_bytes() for part in range(1, 5))
    if (got := hashlib.sha256(model).hexdigest()) != MODEL_SHA256:
        raise SystemExit(f"{work}/model-*.bin: expected sha256 {MODEL_SHA256}, got {got}")
    return model


def torch_name(node: str) -> str:
    """Dotted module path of a graph node such as `/encoder/F0.0/conv1/Conv_quant`."""
    parts = [part for part in node.split("/") if part][:-1]
    if parts[:2] == ["decoder", "decoder"]:
        parts = parts[1:]
    elif parts[0] == "encoder":
        inner = parts[1:]
        prosody = re.match(r"(F0|N)[._]|shared", inner[0])
        parts = ["predictor", *inner] if prosody else inner
    names: list[str] = []
    for part in parts:
        if names and part.startswith(names[-1] + "."):  # a Sequential: `cnn.0` and then `cnn.0.0`
            names.pop()
        names.append(part)
    return ".".join(names)


def quantised(name: str, values: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> Tensors:
    """An integer weight with a scale and a zero a tensor (or a row of dimension 0), all as int8."""
    offset = 128 if values.dtype == np.uint8 else 0
    rows = (-1,) + (1,) * (values.ndim - 1)
    return {
        name: (values.astype(np.int16) - offset).astype(np.int8),
        f"{name}.scale": np.asarray(scale, np.float32).reshape(rows),
        f"{name}.zero": (np.asarray(zero).astype(np.float32) - offset).reshape(rows),
    }


class Export:
    """The graph and its constants; `tensors()` walks it once."""

    def __init__(self, model: bytes) -> None:
        import onnx
        from onnx import numpy_helper

        graph = onnx.load_from_string(model).graph
        self.nodes: list[Any] = list(graph.node)
        self.constants: Tensors = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        self.readers = {name: node for node in self.nodes for name in node.input}

    def tensors(self) -> Tensors:
        handlers: dict[str, Callable[[Any], Tensors]] = {
            "ConvInteger": self._integer, "MatMulInteger": self._integer, "DynamicQuantizeLSTM": self._lstm,
            "Gather": self._embedding, "Conv": self._plain, "ConvTranspose": self._plain, "MatMul": self._plain,
        }  # fmt: skip
        out = dict(self._named())
        for node in self.nodes:
            if handler := handlers.get(node.op_type):
                out |= handler(node)
        return {name: values for name, values in out.items() if not LEFT_OUT.search(name)}

    def _named(self) -> Iterator[tuple[str, np.ndarray]]:
        """Constants that kept their torch name."""
        for name, values in self.constants.items():
            if values.dtype == np.float32 and re.search(r"\.(bias|gamma|beta|weight|alpha[12]\.\d)$", name):
                yield re.sub(r"^decoder\.decoder\.", "decoder.", name.removeprefix("encoder.")), values

    def _integer(self, node: Any) -> Tensors:
        weight, zero_name = node.input[1], node.input[3] if len(node.input) > 3 else ""
        if weight not in self.constants:
            return {}
        values, scale = self.constants[weight], self.constants[weight.removesuffix("_quantized") + "_scale"]
        zero = self.constants[zero_name] if zero_name else np.zeros((), values.dtype)
        values = values.T if node.op_type == "MatMulInteger" else values
        return quantised(f"{torch_name(node.name)}.weight", np.ascontiguousarray(values), scale, zero)

    def _plain(self, node: Any) -> Tensors:
        values = self.constants.get(node.input[1])
        if values is None or values.dtype != np.float32:
            return {}
        values = values.T if node.op_type == "MatMul" else values
        return {f"{torch_name(node.name)}.weight": np.ascontiguousarray(values)}

    def _embedding(self, node: Any) -> Tensors:
        table = node.input[0]
        if not table.endswith("_quantized"):
            return {}
        reader = self.readers[node.output[0]]  # the DequantizeLinear: values, scale, zero
        scale, zero = (self.constants[name] for name in reader.input[1:3])
        return quantised(f"{torch_name(node.name)}.weight", self.constants[table], scale, zero)

    def _lstm(self, node: Any) -> Tensors:
        """ONNX orders the gates input, output, forget, cell; torch input, forget, cell, output."""
        name = torch_name(node.name)
        inputs, hidden, bias = (self.constants[item] for item in node.input[1:4])
        in_scale, in_zero, hid_scale, hid_zero = (self.constants[item] for item in node.input[8:12])
        width = hidden.shape[1]
        out: Tensors = {}
        for row, suffix in enumerate(("_l0", "_l0_reverse")):
            gates = [np.ascontiguousarray(_torch_gates(each[row]).T) for each in (inputs, hidden)]
            out |= quantised(f"{name}.weight_ih{suffix}", gates[0], in_scale[row], in_zero[row])
            out |= quantised(f"{name}.weight_hh{suffix}", gates[1], hid_scale[row], hid_zero[row])
            out[f"{name}.bias_ih{suffix}"] = _torch_gates(bias[row][: 4 * width])
            out[f"{name}.bias_hh{suffix}"] = _torch_gates(bias[row][4 * width :])
        return out


def _torch_gates(values: np.ndarray) -> np.ndarray:
    i, o, f, c = np.split(values, 4, axis=-1)
    return np.concatenate([i, f, c, o], axis=-1)


def stored(tensors: Tensors) -> Tensors:
    """Scales, zeros and vectors stay float32; the few large float matrices become float16."""
    return {
        name: values.astype(np.float16) if values.dtype == np.float32 and values.size > 20_000 else values
        for name, values in sorted(tensors.items())
    }


def write_voices(work: Path, path: Path) -> None:
    """`voices.npz`: names [28], those of TRAIN first, and styles float16 [28, 112, 256]."""
    names = [*TRAIN, *UNSEEN]
    tables = [np.fromfile(work / "voices" / f"{name}.bin", np.float32).reshape(-1, STYLE_WIDTH) for name in names]
    styles = np.stack([table[:STYLE_ROWS] for table in tables]).astype(np.float16)
    np.savez(path, names=np.array(names), styles=styles)


def write_modules(source: Path, folder: Path) -> None:
    """Kokoro's network files as a package of their own, without what only their command line needs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("", encoding="utf-8")
    istftnet = (source / "kokoro" / "istftnet.py").read_text(encoding="utf-8")
    modules = (source / "kokoro" / "modules.py").read_text(encoding="utf-8")
    without_stft = istftnet.replace("from kokoro.custom_stft import CustomSTFT\n", "")
    without_bert = modules.replace("from transformers import AlbertModel\n", "").partition("# https://github.com/yl4579/"
                                   "StyleTTS2/blob/main/Utils/PLBERT")[0]  # fmt: skip
    (folder / "istftnet.py").write_text(without_stft, encoding="utf-8")
    (folder / "modules.py").write_text(without_bert, encoding="utf-8")
    shutil.copy(next(source.glob("kokoro-*.dist-info/licenses/LICENSE")), folder / "LICENSE")


def halves(tensors: Tensors) -> tuple[Tensors, Tensors]:
    """Two sets of about equal bytes; a reader joins them before it uses either."""
    total, taken, first = sum(values.nbytes for values in tensors.values()), 0, {}
    for name, values in tensors.items():
        if taken + values.nbytes > total // 2:
            break
        first[name], taken = values, taken + values.nbytes
    return first, {name: values for name, values in tensors.items() if name not in first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("work", "modules", "out"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    tensors = stored(Export(joined_model(options.work)).tensors())
    for part, half in zip(("part1", "part2"), halves(tensors), strict=True):
        (options.out / part).mkdir(parents=True, exist_ok=True)
        save_file(half, options.out / part / "weights.safetensors")
    write_modules(options.modules, options.out / "part1" / "kokoro_modules")
    write_voices(options.work, options.out / "part1" / "voices.npz")
    for part in ("part1", "part2"):
        size = sum(path.stat().st_size for path in (options.out / part).rglob("*") if path.is_file())
        print(f"{part}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
