"""Kokoro-82M in torch, in batches without masks: the teacher whose speech the tiny models learn from.

The text side takes sentences of one symbol count, the vocoder sentences of one frame count, so no row of a batch is
padded and none needs a mask. In between every frame fetches what its symbol holds.

Shapes: B rows, P symbols of a sentence, S = P + 2 symbols with the silence before and after, N teacher frames (25 ms,
600 samples). Network files (StyleTTS2's, as the package `kokoro` publishes them) and weights come from the TEACHER
folder that `teacher_pack` makes.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import remove_weight_norm

from scripts.train_tiny.pace import SYMBOLS
from scripts.train_tiny.voices import ACOUSTIC


class TextModel(nn.Module):
    """The ALBERT behind the prosody: one transformer layer, used twelve times, after which there is no mask to need."""

    def __init__(
        self, narrow: int = 128, width: int = 768, inner: int = 2048, layers: int = 12, heads: int = 12
    ) -> None:
        super().__init__()
        self.layers, self.heads = layers, heads
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(SYMBOLS, narrow), "position_embeddings": nn.Embedding(512, narrow),
            "token_type_embeddings": nn.Embedding(2, narrow), "LayerNorm": nn.LayerNorm(narrow, eps=1e-12),
        })  # fmt: skip
        projections = {name: nn.Linear(width, width) for name in ("query", "key", "value", "dense")}
        layer = nn.ModuleDict({
            "attention": nn.ModuleDict({**projections, "LayerNorm": nn.LayerNorm(width, eps=1e-12)}),
            "ffn": nn.Linear(width, inner), "ffn_output": nn.Linear(inner, width),
            "full_layer_layer_norm": nn.LayerNorm(width, eps=1e-12),
        })  # fmt: skip
        group = nn.ModuleDict({"albert_layers": nn.ModuleList([layer])})
        self.encoder = nn.ModuleDict({
            "embedding_hidden_mapping_in": nn.Linear(narrow, width), "albert_layer_groups": nn.ModuleList([group])
        })  # fmt: skip

    def forward(self, symbols: Tensor) -> Tensor:
        """int64 [B, S] -> [B, S, 768]."""
        tables: Any = self.embeddings
        x = tables["word_embeddings"](symbols) + tables["position_embeddings"].weight[: symbols.shape[1]]
        x = tables["LayerNorm"](x + tables["token_type_embeddings"].weight[0])
        x = self.encoder["embedding_hidden_mapping_in"](x)
        for _ in range(self.layers):
            x = self._layer(x)
        return x

    def _layer(self, x: Tensor) -> Tensor:
        layer: Any = self.encoder["albert_layer_groups"]
        layer = layer[0]["albert_layers"][0]
        attention = layer["attention"]
        q, k, v = (
            attention[name](x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = attention["LayerNorm"](x + attention["dense"](mixed))
        hidden = F.gelu(layer["ffn"](x), approximate="tanh")
        return layer["full_layer_layer_norm"](x + layer["ffn_output"](hidden))


@dataclass(frozen=True)
class Read:
    """What the text side makes of sentences of one symbol count."""

    prosody: Tensor
    """[B, S, 640]"""
    sounds: Tensor
    """[B, S, 512]"""
    durations: Tensor
    """float32 [B, S]: how many teacher frames each symbol would naturally last at speed 1, not rounded."""


class Kokoro(nn.Module):
    """`read` sentences, choose whole durations, `speak`."""

    def __init__(self, network: ModuleType) -> None:
        """network: the package of `istftnet` and `modules` that the TEACHER folder holds."""
        super().__init__()
        self.bert = TextModel()
        self.bert_encoder = nn.Linear(768, 512)
        self.predictor = network.modules.ProsodyPredictor(style_dim=128, d_hid=512, nlayers=3, max_dur=50, dropout=0.2)
        self.text_encoder = network.modules.TextEncoder(channels=512, kernel_size=5, depth=3, n_symbols=SYMBOLS)
        self.decoder = network.istftnet.Decoder(
            dim_in=512, style_dim=128, dim_out=80, resblock_kernel_sizes=[3, 7, 11], upsample_rates=[10, 6],
            upsample_initial_channel=512, resblock_dilation_sizes=[[1, 3, 5]] * 3, upsample_kernel_sizes=[20, 12],
            gen_istft_n_fft=20, gen_istft_hop_size=5,
        )  # fmt: skip
        for module in self.modules():
            if hasattr(module, "weight_g"):  # the export's weights are the products already
                remove_weight_norm(module)

    @classmethod
    def load(cls, teacher: Path, device: torch.device | str) -> Kokoro:
        """Raises RuntimeError when the folder's weights are not exactly the network's."""
        kokoro = cls(_network(teacher / "part1" / "kokoro_modules"))
        weights = _dequantised(load_file(teacher / "part1" / "weights.safetensors")
                               | load_file(teacher / "part2" / "weights.safetensors"))  # fmt: skip
        own = kokoro.state_dict()
        result = kokoro.load_state_dict(
            {name: value.reshape(own[name].shape) for name, value in weights.items()}, strict=False
        )
        # An instance norm's own scale and shift were never trained: they are one and zero, and the export has none.
        if missing := [name for name in result.missing_keys if not name.endswith((".norm.weight", ".norm.bias"))]:
            raise RuntimeError(f"{teacher}: no weights for {missing}")
        return kokoro.eval().requires_grad_(False).to(device)

    @torch.no_grad()
    def read(self, symbols: Tensor, style: Tensor) -> Read:
        """int64 [B, P] of one length, float32 [B, 256]."""
        full = F.pad(symbols, (1, 1))
        lengths = torch.full((len(full),), full.shape[1], dtype=torch.long)  # on the CPU: packing wants it there
        mask = torch.zeros(full.shape, dtype=torch.bool, device=full.device)
        hidden = self.bert_encoder(self.bert(full)).transpose(1, 2)
        prosody = self.predictor.text_encoder(hidden, style[:, ACOUSTIC:], lengths, mask)
        recurrent, _ = self.predictor.lstm(prosody)
        durations = torch.sigmoid(self.predictor.duration_proj(recurrent)).sum(-1)
        return Read(prosody, self.text_encoder(full, lengths, mask).transpose(1, 2), durations)

    @torch.no_grad()
    def speak(self, prosody: Tensor, sounds: Tensor, style: Tensor, pitch: Tensor) -> Tensor:
        """What every frame's symbol holds, [B, N, 640] and [B, N, 512], [B, 256] and the factor [B] by which the pitch
        is another than the style's -> float32 [B, N * 600].

        The source of the voice is partly noise: seed torch for a repeatable result.
        """
        curve, energy = self.predictor.F0Ntrain(prosody.transpose(1, 2), style[:, ACOUSTIC:])
        return self.decoder(sounds.transpose(1, 2), curve * pitch[:, None], energy, style[:, :ACOUSTIC]).squeeze(1)


def _network(folder: Path) -> ModuleType:
    """The package in `folder`, imported under a name of its own."""
    name = "kokoro_modules"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{folder} is not a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    for part in ("istftnet", "modules"):
        importlib.import_module(f"{name}.{part}")
    return package


def _dequantised(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: (values.float() - stored[f"{name}.zero"]) * stored[f"{name}.scale"]
        if f"{name}.scale" in stored
        else values.float()
        for name, values in stored.items()
        if not name.endswith((".scale", ".zero"))
    }
