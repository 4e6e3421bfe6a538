"""The sizes and ids of the two checkpoints are ones that every reader of the published layout takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from scripts.train_tiny.config import (
    CODEBOOK_SIZE,
    CODEC,
    CONTROL_IDS,
    ENGLISH,
    HOP,
    NUM_CODEBOOKS,
    ROW_WIDTH,
    SPEAKERS,
    Kind,
    codec_modules,
    fill_codebooks,
    main_json,
    speaker_encoder,
    talker_modules,
)
from ttsbench.core import InvalidInput
from ttsbench.models.qwen3_tts.config import ModelType

TEXT = Path(__file__).parents[2] / "golden" / "toy-base"
"""A folder with tokenizer files: all that the configuration reads of it."""
FILES_BYTES = 100_000
"""Room for a folder's small files and the headers of its weight files."""
TINY_BYTES, BOTH_BYTES = 32e6, 64e6


def test_both_checkpoints_stay_within_their_byte_limits() -> None:
    """Half precision, the codec in either folder. Break it with a num_filters of 16 or a talker of 9 layers."""
    _, talker = talker_modules(Kind.TINY, TEXT)
    _, decoder, encoder = codec_modules()
    tiny = 2 * sum(map(numbers, (talker, decoder, encoder))) + FILES_BYTES
    assert tiny <= TINY_BYTES
    assert 2 * tiny + 2 * numbers(speaker_encoder()) <= BOTH_BYTES


def numbers(module: nn.Module) -> int:
    return sum(tensor.numel() for tensor in module.state_dict().values())


def test_ids_are_the_published_ones_and_lie_where_no_sampler_draws_them() -> None:
    """All samplers bar the last 1,024 ids except end of speech. Break it by moving a speaker below 2,048."""
    ids = [*CONTROL_IDS.values(), *SPEAKERS.values(), ENGLISH]
    assert CONTROL_IDS["codec_eos_token_id"] == 2150  # vllm-omni stops at this number whatever the file says
    assert len(set(ids)) == len(ids)
    assert all(2048 <= number < 3072 for number in ids)


def test_each_kind_serves_its_task() -> None:
    """Break it by giving both kinds the same `tts_model_type` or speakers."""
    tiny, _ = talker_modules(Kind.TINY, TEXT)
    base, _ = talker_modules(Kind.BASE, TEXT)
    assert (tiny.model_type, [*tiny.speakers]) == (ModelType.CUSTOM_VOICE, ["heart", "bella", "michael", "fenrir"])
    assert (base.model_type, [*base.speakers]) == (ModelType.BASE, [])
    assert tiny.offered_languages == base.offered_languages == ("auto", "english")
    assert "speaker_encoder_config" not in main_json(Kind.TINY, TEXT)  # the release has it in Base alone
    assert main_json(Kind.BASE, TEXT)["speaker_encoder_config"]["enc_dim"] == base.talker.hidden_size


def test_text_embedding_has_a_row_for_every_token() -> None:
    """Break it by counting `vocab.json` alone: the special tokens stand behind it."""
    vocab = json.loads((TEXT / "vocab.json").read_text())
    config, talker = talker_modules(Kind.TINY, TEXT)
    assert config.text_vocab_size > len(vocab)
    assert config.text_vocab_size == talker.model.text_embedding.weight.shape[0]
    assert max(config.text.tts_eos, config.text.tts_pad, config.text.im_end) < config.text_vocab_size


def test_a_tokenizer_without_the_published_tokens_is_refused(tmp_path: Path) -> None:
    """Break it by falling back to an id."""
    listed = {"added_tokens_decoder": {"0": {"content": "<|im_start|>"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(listed))
    with pytest.raises(InvalidInput, match="<tts_text_bos>"):
        main_json(Kind.TINY, tmp_path)


def test_both_directions_of_the_codec_share_hop_and_codebooks() -> None:
    """Break it with another stride on one side, or more stored codebooks than used ones."""
    config, _, _ = codec_modules()
    assert config.decoder.hop == config.encoder.hop == HOP == CODEC["decode_upsample_rate"]
    assert config.decoder.num_codebooks == config.encoder.num_codebooks == config.encoder.stored_codebooks
    assert config.decoder.codebook_size == config.encoder.codebook_size == CODEBOOK_SIZE
    assert config.decoder.codebook_dim // 2 == config.encoder.codebook_dim == ROW_WIDTH


def test_filled_codebooks_are_the_rows_of_both_directions() -> None:
    """Book by book in codebook order. Break it by filling them in another order, or by halving one side."""
    _, decoder, encoder = codec_modules()
    rows = torch.randn(NUM_CODEBOOKS, CODEBOOK_SIZE, ROW_WIDTH)
    for direction in (decoder, encoder):
        fill_codebooks(direction.quantizer, rows)
        direction.finalize()
    assert torch.equal(decoder.quantizer.derived("table"), rows.flatten(0, 1))
    quantizer = encoder.quantizer
    semantic, acoustic = quantizer.semantic_residual_vector_quantizer, quantizer.acoustic_residual_vector_quantizer
    assert torch.equal(torch.cat((semantic.derived("table"), acoustic.derived("table"))), rows)
