"""Goldens of the text side: tokens, prompts, talker, code predictor, sampling order, whole greedy utterances."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import official
import torch
from cases import MAX_NEW_TOKENS, REFERENCES, TOKEN_STRINGS, Case, prompt_cases
from torch import Tensor
from toy_configs import NUM_CODES
from toy_weights import probe_audio

TALKER_CASES = (
    "custom_voice.streaming.serena.english.instruct",
    "custom_voice_0b6.streaming.vivian.english.instruct_dropped",
    "base.non_streaming.icl_text_longer.english",
)
DECODE_STEPS = 5
AUDIO_CASES = ("custom_voice.streaming.serena.english.plain", "base.streaming.icl_text_longer.english")
"""Cases whose audio is kept, every seventh sample: plain, and with a reference that is decoded and cut off."""


def tokens(wrapper: Any, folder: Path) -> list[dict[str, Any]]:
    """Ids of each string alone and inside the three templates, then alone under the other split.

    transformers 4.57.3 changes the split only of vocabularies above 100,000, so for a toy its patch is called by hand.
    The patch stays on the tokeniser: call this last.
    """

    def ids(text: str) -> list[int]:
        return [int(i) for i in wrapper._tokenize_texts([text])[0][0]]

    rows: list[dict[str, Any]] = [
        {
            "text": text,
            "ids": ids(text),
            "assistant_ids": ids(wrapper._build_assistant_text(text)),
            "reference_ids": ids(wrapper._build_ref_text(text)),
            "instruct_ids": ids(wrapper._build_instruct_text(text)),
        }
        for text in TOKEN_STRINGS
    ]
    tokenizer = wrapper.processor.tokenizer
    tokenizer._patch_mistral_regex(tokenizer, str(folder), _is_local=True, fix_mistral_regex=True)
    return [row | {"mistral_split_ids": ids(row["text"])} for row in rows]


def reference_audio() -> dict[str, Tensor]:
    """16-bit reference recordings by name."""
    named = {}
    for seed, (name, seconds) in enumerate(REFERENCES.items(), start=40):
        named[name] = (torch.from_numpy(probe_audio(int(seconds * 24000), seed)) * 32768).to(torch.int16)
    return named


def prompts(toys: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor], list[dict[str, Any]]]:
    """Run every case greedily. Returns prompt tensors, talker tensors of TALKER_CASES, and the cases as plain data."""
    tensors = {f"reference.{name}.pcm16": pcm for name, pcm in reference_audio().items()}
    inside: dict[str, Tensor] = {}
    cases = prompt_cases()
    for case in cases:
        call = _run(toys[case.toy], case, tensors)
        frames = call.codes[0]
        tensors[f"{case.name}.inputs_embeds"] = call.talker["inputs_embeds"][0]
        tensors[f"{case.name}.trailing"] = call.talker["trailing_text_hidden"][0]
        tensors[f"{case.name}.tts_pad_embed"] = call.talker["tts_pad_embed"][0, 0]
        tensors[f"{case.name}.sampled"] = call.result.sequences[0].to(torch.int32)
        tensors[f"{case.name}.codes"] = frames.to(torch.int32)
        if case.name in AUDIO_CASES:
            tensors[f"{case.name}.audio_every_7"] = torch.from_numpy(call.wavs[0])[::7]
        if case.name in TALKER_CASES:
            inside |= {f"{case.name}.{key}": value for key, value in _talker(call).items()}
    return tensors, inside, [asdict(case) for case in cases]


def _run(wrapper: Any, case: Case, tensors: dict[str, Tensor]) -> official.Call:
    extra: dict[str, Any] = {}
    if case.reference is not None:
        pcm = tensors[f"reference.{case.reference}.pcm16"].numpy().astype("float32") / 32768
        item = wrapper.create_voice_clone_prompt((pcm, 24000), case.ref_text, x_vector_only_mode=case.ref_text is None)
        extra["voice_clone_prompt"] = item
        tensors[f"reference.{case.reference}.speaker_embedding"] = item[0].ref_spk_embedding
        if item[0].ref_code is not None:
            tensors[f"reference.{case.reference}.codes"] = item[0].ref_code.to(torch.int32)
    arguments = {**case.arguments(), **extra, **official.GREEDY, "max_new_tokens": MAX_NEW_TOKENS}
    return official.watch(wrapper, case.method, **arguments)


def _talker(call: official.Call) -> dict[str, Tensor]:
    """Prefill and the first decode steps; the codes of the greedy run are the teacher."""
    steps = call.result.hidden_states[: DECODE_STEPS + 1]
    return {
        "prefill_hidden": steps[0][0][-1][0],
        "step_inputs": torch.cat([step[0][0][0] for step in steps[1:]]),
        "hidden": torch.cat([step[0][-1][0, -1:] for step in steps]),
        "logits": torch.cat(call.result.logits[: DECODE_STEPS + 1]),
        "codes": torch.cat([step[1] for step in steps[1:]]).to(torch.int32),
    }


@torch.no_grad()
def predictor(wrapper: Any, rows: int = 6) -> dict[str, Tensor]:
    """Fifteen passes for random talker states: teacher-forced on random codes, and greedy."""
    talker, generator = wrapper.model.talker, torch.Generator().manual_seed(77)
    hidden = torch.randn(rows, talker.config.hidden_size, generator=generator)
    codes = torch.randint(NUM_CODES, (rows, 16), generator=generator)
    first = torch.cat((hidden[:, None], talker.get_input_embeddings()(codes[:, :1])), dim=1)
    greedy = talker.code_predictor.generate(
        inputs_embeds=first, max_new_tokens=15, do_sample=False, output_logits=True, return_dict_in_generate=True
    )
    greedy_codes = torch.cat((codes[:, :1], greedy.sequences), dim=1)
    greedy_logits = torch.stack(greedy.logits, dim=1)
    whole, _ = talker.forward_sub_talker_finetune(greedy_codes, hidden)
    torch.testing.assert_close(whole, greedy_logits, atol=1e-5, rtol=1e-5)
    return {
        "hidden": hidden,
        "codes": codes.to(torch.int32),
        "logits": talker.forward_sub_talker_finetune(codes, hidden)[0],
        "greedy_codes": greedy_codes.to(torch.int32),
        "greedy_logits": greedy_logits,
    }
