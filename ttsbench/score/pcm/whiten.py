"""Speech made white, so that a joint stands out: what a short-time linear predictor cannot foretell.

Linear prediction by the autocorrelation method (Makhoul 1975): Hann windows of 20 ms every 10 ms, Levinson-Durbin, all
frames at once. A step in the waveform is broadband; speech is not. What is left over after prediction shows the first
and hides the second.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ttsbench.score.pcm.signal import count

ORDER = 20
"""Two coefficients per formant and kHz, at 20 kHz."""
FRAME, STEP = count(0.02), count(0.01)
WHITE_NOISE = 1e-6
"""Added to the power (-60 dB), so that a band without energy is not raised."""
FLOOR = 1e-12


def prediction_residual(samples: np.ndarray) -> np.ndarray:
    """What each sample differs from its prediction by the ORDER samples before it; [S] to [S]."""
    frames = max(1, -(-len(samples) // STEP))
    lead = (FRAME - STEP) // 2
    padded = np.pad(samples, (lead, frames * STEP - len(samples) + FRAME))
    spans = sliding_window_view(padded, FRAME)[::STEP][:frames]
    filters = _levinson(_autocorrelation(spans * np.hanning(FRAME)))
    history = np.pad(samples, (ORDER, frames * STEP - len(samples)))
    blocks = sliding_window_view(history, STEP + ORDER)[::STEP][:frames]
    taps = sliding_window_view(blocks, ORDER + 1, axis=1)[:, :, ::-1]
    return np.einsum("fso,fo->fs", taps, filters).ravel()[: len(samples)]


def curvature(samples: np.ndarray) -> np.ndarray:
    """Second difference, [S]: a fixed whitener, blind to the context that linear prediction adapts to."""
    return np.convolve(samples, [1.0, -2.0, 1.0])[: len(samples)]


def _autocorrelation(frames: np.ndarray) -> np.ndarray:
    size = 1 << (2 * FRAME - 1).bit_length()
    lags = np.fft.irfft(np.abs(np.fft.rfft(frames, size)) ** 2, size)[:, : ORDER + 1]
    lags[:, 0] = lags[:, 0] * (1 + WHITE_NOISE) + FLOOR
    return np.asarray(lags)


def _levinson(lags: np.ndarray) -> np.ndarray:
    """Prediction error filters [frames, ORDER + 1], the first tap 1, from autocorrelations of the same shape."""
    filters = np.zeros_like(lags)
    filters[:, 0] = 1
    error = lags[:, 0].copy()
    for order in range(1, ORDER + 1):
        reflection = -(filters[:, :order] * lags[:, order:0:-1]).sum(axis=1) / error
        filters[:, 1 : order + 1] += reflection[:, None] * filters[:, order - 1 :: -1][:, :order]
        error *= 1 - reflection**2
    return filters
