"""Observations to bytes and back. Images shrink well under zstd when consecutive frames are taken
together; vectors and tiny observations do not, and are kept as they are.
"""

import threading

import numpy as np
import zstandard

_MIN_BYTES = 1024  # below this, compression does not pay for its time
_MIN_SAVING = 0.1  # of the raw size; otherwise the raw bytes are kept


class Encoder:
    """Turns consecutive observations into bytes. Any number of threads may share one."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._local = threading.local()

    def encode(self, observations: np.ndarray) -> tuple[bytes, bool]:
        """The observations as bytes, and whether these are compressed."""
        rows = np.ascontiguousarray(observations)
        if rows.dtype != np.uint8 or rows.nbytes < _MIN_BYTES:
            return rows.tobytes(), False
        compressed = self._compressor().compress(rows.data)
        if len(compressed) > (1 - _MIN_SAVING) * rows.nbytes:
            return rows.tobytes(), False
        # The compressor cuts its result out of a buffer of the raw size; a copy that fits exactly
        # keeps such holes out of the memory of a full replay.
        return bytes(memoryview(compressed)), True

    def _compressor(self) -> zstandard.ZstdCompressor:
        if not hasattr(self._local, "compressor"):  # one may not be used by two threads at once
            self._local.compressor = zstandard.ZstdCompressor(level=self._level)
        return self._local.compressor


class Decoder:
    """The inverse of `Encoder`, whatever its level. Any number of threads may share one."""

    def __init__(self) -> None:
        self._local = threading.local()

    def decode(self, encoded: bytes, is_compressed: bool) -> bytes:
        """The bytes of the observations that `encode` was given."""
        return self._decompressor().decompress(encoded) if is_compressed else encoded

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        if not hasattr(self._local, "decompressor"):  # one may not be used by two threads at once
            self._local.decompressor = zstandard.ZstdDecompressor()
        return self._local.decompressor
