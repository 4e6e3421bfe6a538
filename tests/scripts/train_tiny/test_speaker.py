"""Training of the speaker encoder at toy size: what is drawn, what is heard, and what comes out."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from scripts.train_tiny import train_speaker
from scripts.train_tiny.config import HOP
from scripts.train_tiny.corpus import SLOTS, Shard
from scripts.train_tiny.loop import Budget
from scripts.train_tiny.train_speaker import RATE_HZ, SpeakerTraining, collect, stretch, style_targets
from scripts.train_tiny.voices import TRAIN, UNSEEN, Voices
from ttsbench.models.qwen3_tts.mel import log_mel
from ttsbench.models.qwen3_tts.speaker_encoder import SpeakerEncoder, SpeakerEncoderConfig

CONFIG = SpeakerEncoderConfig(
    8, mel_dim=32, channels=(16, 16, 16, 16, 32), attention_channels=8, res2net_scale=4, se_channels=8
)


def make_shard(voices: list[int], frames: int = 5) -> Shard:
    """One utterance per entry of `voices`; each voice a hum of its own pitch whose sound starts anywhere."""
    time = torch.arange(frames * HOP) / RATE_HZ
    audio = []
    for number, voice in enumerate(voices):
        pitch = 150 + 90 * (voice % 7)
        wave = sum(torch.sin(2 * torch.pi * pitch * k * time + number) / k for k in range(1, 6))
        audio.append((3000 * torch.as_tensor(wave)).short())
    count = len(voices)
    return Shard(
        audio=torch.cat(audio).view(-1, HOP),
        labels=torch.zeros(count * frames, SLOTS, dtype=torch.uint8),
        said=torch.zeros(count * frames, dtype=torch.uint8),
        sentence=torch.arange(count, dtype=torch.int32),
        voice=torch.tensor(voices, dtype=torch.int32),
        frames=torch.full((count,), frames, dtype=torch.int32),
        offsets=torch.arange(count + 1) * frames,
    )


def make_run(voices: int = 3, rms: float = 0.5) -> SpeakerTraining:
    spoken = [*range(voices), 24, 49]  # two that are held out
    bank = collect([make_shard(spoken * 9), make_shard(spoken * 9)])
    return SpeakerTraining(SpeakerEncoder(CONFIG), bank, torch.randn(50, 2), voices, rms)


def test_mel_of_a_batch_is_the_mel_of_each_row():
    """Inference computes one row at a time; leave the square root out of `RowsOfMel` and this fails.

    The tolerance is the rounding of a sum of 513 float32 products, in logarithms.
    """
    wav = 0.1 * torch.randn(3, 5000)
    rows = train_speaker.RowsOfMel(40, torch.device("cpu"))(wav)
    torch.testing.assert_close(rows, torch.stack([log_mel(row, 40) for row in wav]), atol=1e-4, rtol=1e-4)


def test_utterances_stay_with_their_voices_and_the_held_out_voices_apart():
    """Voices mixed over two shards, rows with a gap; row 24 is held out, and row 9 has no pair. Take `numbered` in
    place of its order and it fails; so does training on a voice that is held out."""
    spoken = np.random.default_rng(0).permutation([2] * 40 + [5] * 20 + [24] * 20 + [9]).tolist()
    bank = collect([make_shard(spoken[:50]), make_shard(spoken[50:])])
    assert bank.rows.tolist() == [2, 5, 9, 24]
    assert [int(bank.rows[v]) for v in bank.voice] == spoken
    assert bank.rows[bank.voices].tolist() == [2, 5]
    assert bank.rows[bank.voice[bank.held_out]].tolist() == [24] * 20
    for voice, (first, count) in enumerate(zip(bank.first.tolist(), bank.count.tolist(), strict=True)):
        assert set(bank.voice[bank.ordered[first : first + count]].tolist()) == {voice}


def test_held_out_speech_and_its_echoes_are_judged_apart():
    """Among both together, an utterance would find its own echo. Red when `held_out` takes all."""
    bank = collect([make_shard([0, 24, 0]), make_shard([24])], [make_shard([24, 0])])
    assert bank.held_out.tolist() == [1, 3]
    assert bank.held_out_echoes.tolist() == [4]


def test_speech_without_a_voice_to_train_on_is_refused():
    with pytest.raises(ValueError, match="two utterances"):
        collect([make_shard([1, 4, 24, 24])])


def test_a_pair_is_two_different_utterances_of_one_voice():
    """Draw the second independently of the first and some pair of the 200 draws is one utterance twice."""
    run = make_run()
    voices = torch.tensor([0, 1, 2])
    for _ in range(200):
        one, other = run._two_utterances(voices)
        assert bool((one != other).all())
        assert run.bank.voice[one].tolist() == run.bank.voice[other].tolist() == [0, 1, 2]


def test_a_stretch_goes_round_where_its_utterance_ends():
    """Leave the modulo out and the stretch runs on into the next utterance."""
    bank = collect([make_shard([0, 0, 1, 1], frames=2)])
    heard = stretch(bank, torch.tensor([2, 1]), 3 * HOP, torch.tensor([0.5, 0.0]))
    whole = bank.audio.view(4, 2 * HOP).float() / 32768
    torch.testing.assert_close(heard[0], torch.cat([whole[2, HOP:], whole[2]]))
    torch.testing.assert_close(heard[1], torch.cat([whole[1], whole[1, :HOP]]))


def test_places_are_those_in_the_span_of_the_teachers_own_voices(tmp_path):
    """A step out of their span leaves no trace, and the voices kept for judging none either: their styles may be
    anything. Standardise with all rows, or with all styles, and it fails.

    Tolerance: styles are stored as float16.
    """
    (tmp_path / "part1").mkdir()
    styles = np.random.default_rng(0).normal(size=(28, 5, 256)).astype(np.float16)
    names = np.array([*TRAIN, *UNSEEN])
    np.savez(tmp_path / "part1" / "voices.npz", names=names, styles=styles)
    voices = Voices(tmp_path, "cpu", 24)
    targets = style_targets(voices)
    torch.testing.assert_close(targets[:20].var(0, correction=0), torch.ones(targets.shape[1]), atol=1e-3, rtol=0)
    own = voices.mean_style(torch.arange(20))
    out = torch.randn(256)
    span = torch.linalg.qr((own - own.mean(0)).T)[0]
    voices._steps[21] = voices._steps[20] + out - span @ (span.T @ out)
    voices._weights[21] = voices._weights[20]
    torch.testing.assert_close(style_targets(voices)[21], targets[20], atol=1e-3, rtol=1e-3)
    styles[20:] = 100
    np.savez(tmp_path / "part1" / "voices.npz", names=names, styles=styles)
    assert torch.equal(targets, style_targets(Voices(tmp_path, "cpu", 24)))


def test_training_tells_voices_apart_and_keeps_the_asked_length(tmp_path, monkeypatch):
    """Leave `rescale` out, or train on `-loss`, and it fails. The weights load under their published names."""
    monkeypatch.setattr(train_speaker, "STRETCH_S", (0.2, 0.3))
    torch.manual_seed(3)
    run = make_run(rms=0.25)
    before = {name: float(value.detach()) for name, value in run.losses(4800).items()}
    train_speaker.train(run, tmp_path, Budget(60))
    after = {name: float(value.detach()) for name, value in run.losses(4800).items()}
    assert after["contrast"] < 0.5 * before["contrast"]
    encoder = SpeakerEncoder(CONFIG)
    encoder.load_state_dict(load_file(tmp_path / "speaker.safetensors"))
    vectors = train_speaker.vectors_of(encoder, run.bank, run.bank.ordered)
    assert float(vectors.norm(dim=1).mean()) == pytest.approx(0.25 * math.sqrt(CONFIG.enc_dim), rel=1e-4)
    last = json.loads((tmp_path / "speaker.jsonl").read_text().splitlines()[-1])
    assert last["nearest_pct"] == 100


def test_a_held_out_utterance_is_not_compared_with_itself():
    """Each has a vector of its own and one in common with its voice. Leave it in its voice's mean and the cosine to
    the own voice is higher than that of two different utterances."""
    bank = collect([make_shard([0, 0, 24, 24, 49, 49])])

    class Apart(SpeakerEncoder):
        def forward(self, mel, ends=None):
            return torch.eye(8)[[0, 0, 1, 1]] + torch.eye(8)[[4, 5, 6, 7]]

    figures = train_speaker.held_out_figures(Apart(CONFIG), bank, bank.held_out)
    assert figures["own_cosine"] == pytest.approx(0.5, abs=1e-6)
    assert figures["next_cosine"] == pytest.approx(0, abs=1e-6)
    assert figures["nearest_pct"] == 100
