"""Codewords by how many of their symbols error correction repaired: what a receiver's histogram counts."""

import numpy as np

from replay.randomness import Floats, Integers, generator

# RS(544,514) over 10-bit symbols, the KP4 code: 5440 bits a codeword, up to 15 of its symbols repaired (IEEE 802.3).
CODEWORD_BITS, CORRECTABLE_SYMBOLS = 5440, 15
BURST_RATIO = 0.6  # of codewords with one more wrong symbol in a burst: an assumption


class FecHistogram:
    """Cumulative bins 0 to 15 of every port end, (e, 16). Independent bit errors make a Poisson histogram, bursts a
    geometric tail behind it.
    """

    def __init__(self, seed: int, gigabits: Floats, raw_decades: Floats) -> None:
        self.seed, self.gigabits = seed, gigabits
        a_day = 86_400.0 * self._codewords(np.ones(len(gigabits)))
        self.bins: Integers = np.floor(a_day[:, None] * _poisson(10.0**raw_decades)).astype(np.int64)

    def count(self, number: int, tick: int, raw: Floats, seconds: Floats, burst_share: Floats | float) -> Integers:
        """The bins after `seconds` (e,) of light at the raw error rate (e,)."""
        noise = generator(self.seed, "fec_histogram", number * 60 + tick)
        codewords = self._codewords(seconds)
        ladder = (1 - BURST_RATIO) * BURST_RATIO ** np.arange(CORRECTABLE_SYMBOLS)
        expected = codewords[:, None] * _poisson(raw)
        expected[:, 1:] += (codewords * burst_share)[:, None] * ladder
        drawn = np.where(
            expected > 1e6, expected, noise.poisson(np.where((expected > 1e-6) & (expected <= 1e6), expected, 0))
        )
        self.bins = self.bins + drawn.astype(np.int64)
        return self.bins

    def _codewords(self, seconds: Floats) -> Floats:
        return np.asarray(self.gigabits * 1e9 / CODEWORD_BITS * seconds)


def _poisson(raw: Floats) -> Floats:
    """(e, 16): share of codewords with so many wrong symbols, each bit error in a symbol of its own."""
    mean = CODEWORD_BITS * raw[:, None]
    symbols = np.arange(CORRECTABLE_SYMBOLS + 1)
    factorials = np.cumprod(np.maximum(symbols, 1).astype(np.float64))
    return np.asarray(np.exp(-mean) * mean**symbols / factorials)
