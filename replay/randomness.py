"""Seeded randomness: one independent generator for each purpose and each block of time, so that what is drawn for
one table never depends on whether another one is simulated, nor on how the stream is cut into windows.
"""

from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Array = npt.NDArray[Any]  # of flags or integers, as the quantity has it
Flags = npt.NDArray[np.bool_]


def generator(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """The generator of (seed, purpose, number); number is the block or the step it is for."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, crc32(purpose.encode()), number))))
