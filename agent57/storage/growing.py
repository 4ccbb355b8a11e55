"""A file that only grows, and survives a full disk."""

import contextlib
import os
import zlib
from io import FileIO
from pathlib import Path
from typing import IO, Any

from agent57.storage.files import RunFolderLost, make_own_folder, not_followed, open_plain

_CHUNK_BYTES = 1 << 20


class GrowingFile:
    """A file that only grows. Content that the disk refuses waits in memory and is tried again."""

    def __init__(self, path: Path, checksum: int = 0) -> None:
        self._path = path
        self._opened: FileIO | None = None  # opened at the first write
        self._identity = (0, 0)  # of the opened file: its descriptor may be reused for another
        self._waiting = bytearray()
        self.checksum = checksum  # CRC-32 of everything that was written, continued from here
        self.size = 0  # bytes in the file when it was last flushed

    @property
    def _file(self) -> FileIO:
        if self._opened is None:
            make_own_folder(self._path.parent)
            self._opened = FileIO(self._path, "ab", opener=not_followed)
            self._identity = identity(os.fstat(self._opened.fileno()))
        return self._opened

    def check(self) -> None:
        """Raise `RunFolderLost` if the open file was closed, removed or replaced by others."""
        if self._opened is not None:
            check_open(self._opened.fileno(), self._identity, self._path)

    def append(self, content: bytes) -> None:
        """Add to the file at once, or with the next `flush` that the disk accepts."""
        self._waiting += content
        with contextlib.suppress(OSError):  # the content waits, and `flush` will report the error
            self.flush()

    def flush(self) -> int:
        """Hand everything to the operating system; return the size of the file in bytes."""
        self.check()
        while self._waiting:
            num_written = self._file.write(self._waiting) or 0
            self.checksum = zlib.crc32(self._waiting[:num_written], self.checksum)
            del self._waiting[:num_written]
        self.size = os.fstat(self._file.fileno()).st_size
        return self.size

    def sync(self) -> None:
        """Bring flushed lines to disk."""
        os.fsync(self._file.fileno())

    def cut_back(self, size: int) -> int:
        """Cut the file to its first `size` bytes; return how many bytes are left.

        If the file is shorter, an incomplete last line is cut too, so that the next line is whole.
        """
        self._waiting.clear()
        present = os.fstat(self._file.fileno()).st_size
        self.size = size if present >= size else last_line_end(self._path)
        self._file.truncate(self.size)
        return self.size

    def close(self) -> None:
        """Close the file. Content that still waits is lost."""
        if self._opened is not None:
            close_own(self._opened, self._identity)


def last_line_end(path: Path) -> int:
    """Return the offset of the end of a file's last whole line."""
    with open_plain(path) as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _CHUNK_BYTES)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                return start + place + 1
            end = start
    return 0


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return the identity of a file, which stays the same when the file is renamed."""
    return found.st_dev, found.st_ino


def check_open(descriptor: int, opened: tuple[int, int], path: Path) -> None:
    """Raise `RunFolderLost` unless the descriptor is open on the file that is still at `path`."""
    try:
        is_ours = identity(os.fstat(descriptor)) == opened
    except OSError:
        is_ours = False
    if not is_ours:
        raise RunFolderLost(
            f"{path} was closed by other code in this process, perhaps by the environment"
        )
    try:
        is_there = identity(path.stat()) == opened
    except OSError:
        is_there = False
    if not is_there:
        lost = path if path.parent.exists() else path.parent
        raise RunFolderLost(f"{lost} was removed, moved or replaced while the run was training")


def close_own(file: IO[Any], opened: tuple[int, int]) -> None:
    """Close a file, unless other code has closed it and reused its descriptor."""
    with contextlib.suppress(OSError):
        if identity(os.fstat(file.fileno())) == opened:
            file.close()
