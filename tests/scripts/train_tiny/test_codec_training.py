"""The codec's trainers: they train the modules of `ttsbench` themselves, and what they write is read back as such."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny import encode_shards, fast_decoder, fit_codes, speech, train_decoder, train_encoder
from scripts.train_tiny.codes import Fit
from scripts.train_tiny.config import CODEBOOK_SIZE, HOP, NUM_CODEBOOKS, ROW_WIDTH, codec_modules
from scripts.train_tiny.corpus import HELD_OUT, load_shard, save_tensors, shard_path, shards
from scripts.train_tiny.discriminators import Discriminators, discriminator_loss, generator_losses
from scripts.train_tiny.encoder import encode_utterances, load_encoder
from scripts.train_tiny.features import FEATURES
from scripts.train_tiny.pace import NO_TOKEN
from scripts.train_tiny.speech import Speech
from scripts.train_tiny.voices import HELD_EVERY, OWN
from ttsbench.models.qwen3_tts.codec_past import NoPast

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def fit() -> Fit:
    """Views and codebooks of the right shape, fitted to nothing."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(FEATURES, 2 * ROW_WIDTH, generator=generator))[0]
    books = torch.randn(NUM_CODEBOOKS, CODEBOOK_SIZE, ROW_WIDTH, generator=generator)
    return Fit(
        torch.full((FEATURES,), -1.0), basis[:, :ROW_WIDTH].contiguous(), basis[:, ROW_WIDTH:].contiguous(), books
    )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of three tones that swell, the first of them a held-out sentence."""
    folder = tmp_path_factory.mktemp("scratch")
    frames = torch.tensor([20, 25, 30], dtype=torch.int32)
    time = torch.arange(int(frames.sum()) * HOP) / 24_000
    tone = 0.2 * torch.sin(2 * torch.pi * 220 * time * (1 + time)) * torch.sin(3 * time)
    stored = {
        "audio": (tone * 32767).to(torch.int16).view(-1, HOP),
        "labels": torch.randint(40, 60, (75, 4), dtype=torch.uint8),
        "said": torch.full((75,), NO_TOKEN, dtype=torch.uint8),
        "sentence": torch.tensor([HELD_OUT - 1, HELD_OUT, HELD_OUT + 1], dtype=torch.int32),
        "voice": torch.zeros(3, dtype=torch.int32),
        "frames": frames,
    }
    save_tensors(shard_path(folder, "many", 0), stored)
    return folder


def random_codes(rows: int, frames: int) -> Tensor:
    return torch.randint(CODEBOOK_SIZE, (rows, frames, NUM_CODEBOOKS))


def run(main, *arguments: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["piece", *map(str, arguments)])
    main()


def test_a_decoder_in_training_speaks_as_the_decoder_it_will_be(fit: Fit):
    """Red when summed rows, the library's upsampling or the plain Snake differ from what the modules do with codes."""
    trained = fast_decoder.build_decoder(fit.books)
    decoder = codec_modules()[1]
    decoder.load_state_dict(trained.state_dict())
    decoder.finalize()
    fast_decoder.train_on_row_sums(trained)
    codes = random_codes(2, 4)
    sums = fast_decoder.row_sums(fit.books, codes, torch.full((2,), NUM_CODEBOOKS))
    past = NoPast(4, decoder.config.window, CPU, torch.float32)
    with torch.no_grad():
        # float32 sums in another order, through some thirty layers
        assert torch.allclose(trained(sums, past), decoder.decode(codes), atol=1e-4)
        assert decoder.decode(codes).abs().max() > 1e-2


def test_a_crop_with_fewer_levels_lacks_the_later_ones(fit: Fit):
    """Red when the count keeps one level too many, or cuts the semantic group."""
    codes = random_codes(2, 3)
    sums = fast_decoder.row_sums(fit.books, codes, torch.tensor([1, 3]))
    assert torch.equal(sums[:, :, :ROW_WIDTH], fit.books[0][codes[:, :, 0]])
    assert (sums[0, :, ROW_WIDTH:] == 0).all()
    assert torch.allclose(sums[1, :, ROW_WIDTH:], fit.books[1][codes[1, :, 1]] + fit.books[2][codes[1, :, 2]])


def test_speech_keeps_held_out_sentences_apart_and_codes_with_their_audio(scratch: Path, fit: Fit):
    """Red when a held-out utterance is trained on, or crops of audio and codes go apart."""
    training, held = speech.load_speech(scratch, ["many"], 1.0, fit, CPU)
    audio = load_shard(shards(scratch, "many")[0]).audio
    assert torch.equal(held.audio, audio[:20])
    assert torch.equal(training.audio, audio[20:])
    marked = Speech(torch.arange(9).repeat_interleave(HOP).view(9, HOP).to(torch.int16), torch.arange(9)[:, None])
    wave, codes = marked.crops(50, 4)
    assert torch.equal((wave.view(50, 4, HOP)[:, :, 0] * 32768).round().long(), codes[:, :, 0])
    assert {int(first) for first in codes[:, 0, 0]} == {0, 1, 2, 3, 4, 5}


def test_no_voice_that_is_held_out_is_trained_on(tmp_path: Path, scratch: Path, fit: Fit):
    """A clip of a held-out voice says a training sentence. Red when sentences alone decide."""
    shard = load_file(shards(scratch, "many")[0])
    voice = torch.tensor([OWN + 3, OWN + 3, HELD_EVERY - 1 + HELD_EVERY], dtype=torch.int32)
    save_tensors(shard_path(tmp_path, "reference", 0), {**shard, "voice": voice})
    training, held = speech.load_speech(tmp_path, ["reference"], 1.0, fit, CPU)
    assert torch.equal(training.audio, shard["audio"][20:45])
    assert torch.equal(held.audio, torch.cat((shard["audio"][:20], shard["audio"][45:])))
    features, _, out = fit_codes.gather(tmp_path, ["reference"], 75, CPU, torch.Generator().manual_seed(0))
    assert (len(features), int(out.sum())) == (75, 20 + 30)


def test_discriminators_learn_no_faster_than_the_decoder(fit: Fit):
    """Red when their rate follows the default peak: a trained decoder goes on at a lower one."""
    trainer = train_decoder.Trainer(fit, replace(train_decoder.TOY, crops=1, frames=4), CPU, peak=1e-4)
    trainer.set_rate(0.02)
    assert float(trainer.judge_rate) == float(trainer.rate) == pytest.approx(1e-4)
    trainer.peak = 1.0
    trainer.set_rate(0.02)
    assert float(trainer.judge_rate) == pytest.approx(train_decoder.DISCRIMINATOR_RATE)


def test_the_spectral_distance_grows_with_the_difference_and_is_deaf_below_the_floor():
    """Red when magnitudes are not floored: digital silence and faint hiss would then be far apart."""
    tone = 0.2 * torch.sin(torch.arange(2 * HOP) * 0.1)[None]
    near, far = (train_decoder.mel_distances(gain * tone, tone).mean() for gain in (0.9, 0.5))
    assert 0 < near < far
    silence = torch.zeros(1, 2 * HOP)
    assert train_decoder.mel_distances(1e-6 * torch.randn(1, 2 * HOP), silence).max() == 0


def test_the_spectral_distance_has_a_finite_slope_at_silence():
    """Red when the root is taken of a power of zero."""
    silence = torch.zeros(1, 2 * HOP, requires_grad=True)
    train_decoder.mel_distances(silence, torch.randn(1, 2 * HOP)).sum().backward()
    assert silence.grad is not None
    assert silence.grad.isfinite().all()


def test_discriminators_learn_from_both_and_give_no_gradient_to_the_wave_they_judge():
    """Red when the fake wave is not detached, or the decoder's loss does not reach it."""
    torch.manual_seed(0)
    judges = Discriminators()
    real, fake = torch.randn(1, HOP), torch.randn(1, HOP, requires_grad=True)
    discriminator_loss(judges, real, fake).backward()
    untouched = fake.grad is None
    assert untouched
    adversarial, matching = generator_losses(judges, real, fake)
    (adversarial + matching).backward()
    assert fake.grad is not None
    assert fake.grad.abs().sum() > 0
    assert generator_losses(judges, real, real)[1] == 0


class Loudness(Discriminators):
    """Takes ones for real and zeros for fake, with no layer in between."""

    def forward(self, wave: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        return [(wave, [wave])]


def test_a_discriminator_that_is_right_has_no_loss_and_the_decoder_all_of_it():
    """Red when real and fake change places in either loss."""
    real, fake = torch.ones(2, 5), torch.zeros(2, 5)
    assert discriminator_loss(Loudness(), real, fake) == 0
    assert generator_losses(Loudness(), real, fake)[0] == 1


def test_both_halves_of_the_decoder_s_training_update_it_and_only_it(fit: Fit, scratch: Path):
    """Red when codebooks train, or a half has a loss that does not reach the first layer."""
    torch.manual_seed(0)
    trainer = train_decoder.Trainer(fit, replace(train_decoder.TOY, crops=1, frames=4), CPU)
    training, held = speech.load_speech(scratch, ["many"], 1.0, fit, CPU)
    trainer.draw(training)
    trainer.set_rate(0.1)
    for step in (trainer.step, trainer.judged_step):
        before = {name: value.clone() for name, value in trainer.decoder.state_dict().items()}
        step()
        after = trainer.decoder.state_dict()
        same = {name for name in before if torch.equal(before[name], after[name])}
        fixed = {name for name in before if "_codebook" in name or ("input_proj.weight" in name and "rvq" in name)}
        assert same == fixed
    assert len(trainer.held_out(held)) == len(train_decoder.SCALES)


def test_codes_of_a_batch_are_those_that_a_reference_gets_alone(fit: Fit):
    """Red when padding reaches a frame, or utterances come back in another order."""
    torch.manual_seed(0)
    encoder = train_encoder.build_encoder(fit.books).eval()
    encoder.finalize()
    counts = torch.tensor([3, 5, 2], dtype=torch.int32)
    audio = (3000 * torch.randn(10, HOP)).to(torch.int16)
    batch = encode_utterances(encoder, audio, counts)
    with torch.no_grad():
        alone = [encoder.encode(piece.flatten() / 32768) for piece in audio.split(counts.tolist())]
    # Distances differ in the last bit with the batch: a rare tie between two rows may fall the other way.
    assert (batch == torch.cat(alone)).float().mean() > 0.98


def test_a_fresh_encoder_s_output_varies_in_time(fit: Fit):
    """Red with the library's start, whose output is nearly the same for every frame."""
    torch.manual_seed(0)
    encoder = train_encoder.build_encoder(fit.books)
    with torch.no_grad():
        seen = encoder.features(0.06 * torch.randn(20 * HOP) * torch.linspace(0, 2, 20 * HOP))
    assert float(seen.var(0).sum() / seen.square().mean(0).sum()) > 0.5


def test_crops_of_the_encoder_come_at_different_levels_within_the_bound(fit: Fit):
    """Red when the gain is left out, or is one for all crops."""
    steady = Speech(torch.full((20, HOP), 3277, dtype=torch.int16), torch.zeros(20, NUM_CODEBOOKS, dtype=torch.uint8))
    levels = train_encoder.Trainer(fit, steady, 8, 2, CPU).wave.amax(1) / 0.1
    assert len(levels.unique()) == 8
    assert levels.min() > 0.5
    assert levels.max() < 2


def test_the_encoder_learns_both_views(fit: Fit, scratch: Path):
    """Red when a target, a projection or the order of the two groups is wrong: the error then stays where it was."""
    torch.manual_seed(0)
    training, held = speech.load_speech(scratch, ["many"], 1.0, fit, CPU)
    trainer = train_encoder.Trainer(fit, training, 2, 8, CPU)
    trainer.rate.fill_(1e-3)
    errors = []
    for _ in range(12):
        trainer.step()
        errors.append([float(trainer.figures[name]) for name in ("semantic", "acoustic")])
    assert all(last < 0.5 * first for first, last in zip(errors[0], errors[-1], strict=True))
    with torch.no_grad():
        semantic, acoustic = trainer.seen(trainer.wave)
    wanted = train_encoder.crop_features(trainer.wave)
    for seen, view in ((semantic, fit.semantic(wanted)), (acoustic, fit.acoustic(wanted))):
        assert (seen - view).square().sum() < 0.5 * view.square().sum()
    assert len(trainer.held_out(held)["codes_agree"]) == NUM_CODEBOOKS


def test_the_pieces_hand_on_what_they_write(scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Red when a piece writes what the next one, or the module itself, cannot read."""
    monkeypatch.setattr("scripts.train_tiny.codes.ITERATIONS", 1)
    monkeypatch.setattr(train_decoder, "TOY", train_decoder.Size(1, 4, 1, 2))
    common = "--scratch", scratch, "--kinds", "many"
    fit_file = tmp_path / "codes.safetensors"
    run(fit_codes.main, *common, "--out", fit_file, monkeypatch=monkeypatch)
    trained = *common, "--codes", fit_file, "--run", tmp_path, "--steps", 2
    run(train_decoder.main, *trained, "--toy", monkeypatch=monkeypatch)
    run(train_encoder.main, *trained, "--crops", 1, "--frames", 4, monkeypatch=monkeypatch)
    codec_modules()[1].load_state_dict(load_file(tmp_path / "decoder.safetensors"))
    load_encoder(tmp_path / "encoder.safetensors", CPU)
    again = *trained[:-1], 4, "--start"
    run(train_decoder.main, *again, tmp_path / "decoder.safetensors", "--toy", monkeypatch=monkeypatch)
    start = tmp_path / "encoder.safetensors"
    run(train_encoder.main, *again, start, "--crops", 1, "--frames", 4, monkeypatch=monkeypatch)
    run(encode_shards.main, *common, "--codes", fit_file, monkeypatch=monkeypatch)
    run(encode_shards.main, *common, "--encoder", tmp_path / "encoder.safetensors", monkeypatch=monkeypatch)
    assert load_file(scratch / "many-00000.codes.safetensors")["codes"].shape == (75, NUM_CODEBOOKS)
    written = load_file(scratch / "many-00000.heard.safetensors")["codes"]
    encoder_module = load_encoder(tmp_path / "encoder.safetensors", CPU)
    shard = load_shard(shards(scratch, "many")[0])
    assert torch.equal(written, encode_utterances(encoder_module, shard.audio, shard.frames))
