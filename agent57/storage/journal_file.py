"""One journal of a run: lines with a checksum each, sealed into segments when it grows long."""

import contextlib
import struct
import threading
import zlib
from pathlib import Path

from agent57.storage.files import open_plain, sync_folder
from agent57.storage.growing import GrowingFile
from agent57.storage.segments import (
    checksum_of,
    compress,
    contents,
    cut_segments,
    sealed_bytes,
    segment_path,
    segments,
)

_SUM = struct.Struct("<I")  # CRC-32 of one line


def sums_path(journal: Path) -> Path:
    """Return the file with the checksums of a journal's lines, four bytes for each line."""
    return journal.with_name(f".{journal.stem}.sums")


def read_sums(journal: Path) -> frozenset[int]:
    """Return the checksums of a growing journal's lines; older runs have none."""
    file = sums_path(journal)
    if not file.is_file() or not journal.is_file():
        return frozenset()
    with open_plain(file) as opened:
        content = opened.read(_SUM.size * journal.stat().st_size)  # limit against forged files
    return frozenset(_unpacked(content))


def _unpacked(content: bytes) -> list[int]:
    whole = len(content) - len(content) % _SUM.size
    return [value for (value,) in _SUM.iter_unpack(content[:whole])]


def changed_lines(lines: list[bytes], sums: frozenset[int]) -> set[int]:
    """Return the indices of lines that were changed after they were written.

    Lines after the last line with a known checksum are not judged: a power cut may have lost their
    checksums.
    """
    known = [index for index, line in enumerate(lines) if zlib.crc32(line) in sums]
    return set(range(max(known, default=-1))) - set(known)


class JournalFile:
    """A file of lines that only grows, with a checksum for each line.

    A journal that reaches `segment_bytes` is sealed: its file becomes a segment, and a new file
    begins. `sync` compresses segments. Sizes and checksums include sealed lines.
    """

    def __init__(self, path: Path, segment_bytes: int | None = None) -> None:
        self._path = path
        self._segment_bytes = segment_bytes
        self._lines = GrowingFile(path)
        self._sums = GrowingFile(sums_path(path))
        self._sealed = sealed_bytes(path)  # bytes in segments
        self._lock = threading.Lock()  # between sealing and `sync`, which runs in another thread

    @property
    def checksum(self) -> int:
        """CRC-32 of all lines."""
        return self._lines.checksum

    def check(self) -> None:
        """Raise `RunFolderLost` if the open file was closed, removed or replaced by others."""
        self._lines.check()

    def append(self, line: bytes) -> None:
        """Add a line at once, or with the next `flush` that the disk accepts."""
        self._sums.append(_SUM.pack(zlib.crc32(line)))  # first: a line never lacks its checksum
        self._lines.append(line)
        self._seal_if_long()

    def flush(self) -> int:
        """Hand all lines to the operating system; return their size in bytes."""
        self._sums.flush()
        size = self._sealed + self._lines.flush()
        self._seal_if_long()
        return size

    def _seal_if_long(self) -> None:
        if self._segment_bytes is None or self._lines.size < self._segment_bytes:
            return
        end = self._sealed + self._lines.size
        with contextlib.suppress(OSError), self._lock:  # else the next line tries again
            self._path.rename(segment_path(self._path, self._sealed, end))
            self._lines.close()
            self._lines = GrowingFile(self._path, self._lines.checksum)
            self._sealed = end
            self._lines.flush()  # begins the new file
            self._sums.cut_back(0)

    def sync(self) -> None:
        """Bring flushed lines to disk, and compress sealed segments."""
        with self._lock:
            self._lines.sync()
            self._sums.sync()
        for segment in segments(self._path):
            if not segment.is_packed:
                compress(segment)
        sync_folder(self._path.parent)

    def cut_back(self, size: int, checksum: int | None = None) -> str:
        """Cut the journal to its first `size` bytes; return what is wrong with them, or "".

        The end is cut first, so that an interruption leaves no hole.
        """
        if sealed_bytes(self._path) > size:
            self._lines.cut_back(0)
            cut_segments(self._path, size)
        self._sealed = sealed_bytes(self._path)
        kept = self._sealed + self._lines.cut_back(size - self._sealed)
        self._lines.checksum = checksum_of(self._path, kept)
        changed = self._cut_sums()
        name = self._path.name
        if kept < size:
            return f"{name} lacks {size - kept} bytes it once had"
        if checksum in (None, self._lines.checksum):
            return ""
        found = [wrong for segment in segments(self._path) for _, wrong in contents(segment)]
        found += [f"line {index + 1} is damaged" for index in sorted(changed)]
        where = ", ".join(filter(None, found)) or "some of its lines may be damaged"
        return f"{name} was changed from outside: {where}"

    def _cut_sums(self) -> set[int]:
        """Leave one checksum for each line; return the indices of lines that were changed."""
        with open_plain(self._path) as file:
            lines = file.read().splitlines(keepends=True)
        changed = changed_lines(lines, read_sums(self._path))
        num_known = self._sums.cut_back(min(self._sums.flush(), _SUM.size * len(lines)))
        for line in lines[num_known // _SUM.size :]:  # lines of an older run have no checksums
            self._sums.append(_SUM.pack(zlib.crc32(line)))
        return changed

    def close(self) -> None:
        """Close the files. Lines that still wait are lost."""
        self._lines.close()
        self._sums.close()
