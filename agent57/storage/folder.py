"""The run folder: its configuration, its growing records, and the lock that guards them."""

import contextlib
import errno
import fcntl
import json
import os
import stat
import zlib
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Any

from agent57.config import Config, ConfigError, from_dict, require, to_dict

CONFIG_FILE = "config.json"
CHECKPOINTS = "checkpoints"
LOCK = ".lock"
JOURNALS = ("metrics.jsonl", "episodes.jsonl")
MAX_CONFIG_BYTES = 1_000_000
_CHUNK_BYTES = 1 << 20


class RunFolderLost(RuntimeError):
    """A file of the run is no longer where it was, or no longer open: says which."""


def open_plain(path: Path) -> BufferedReader:
    """Open a file for reading. Pipes, devices and folders are an OSError: they may never end."""
    file = open(path, "rb", opener=_not_waiting)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return file


def _not_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)  # a pipe without a writer would wait for one


def not_followed(name: str, flags: int) -> int:
    """Open a file that is written; a symbolic link is an OSError, as is anything but a file."""
    try:
        handle = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link is not written through", name) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file", name)
    return handle


def make_own_folder(path: Path) -> None:
    """Make a folder inside the run folder. One that is a link would lead the run outside."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link is not written through", str(path))
    path.mkdir(exist_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds the old content or the new, never a part of it."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with open(temporary, "wb", opener=not_followed) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_json(file: Path) -> None:
    """Refuse a file that --json names and that could not be written; its folder is made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--json {file} cannot be written: {error.strerror}") from None
    require(not file.is_dir(), f"--json {file} cannot be written: it is a folder")
    can_write = os.access(file if file.exists() else file.parent, os.W_OK)
    require(can_write, f"--json {file} cannot be written: permission denied")


def write_json(file: Path, values: dict[str, Any]) -> None:
    """Write numbers where --json wants them."""
    check_json(file)
    try:
        file.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"--json {file} cannot be written: {error.strerror}") from None


def read_config(path: Path) -> Config:
    """Return the configuration of a run."""
    file = path / CONFIG_FILE
    require(file.is_file(), f"{path} holds no run: {CONFIG_FILE} is missing")
    return read_config_file(file)


def read_config_file(file: Path) -> Config:
    """Return the configuration that a file holds; `ConfigError` names the file."""
    try:
        with open_plain(file) as opened:
            content = opened.read(MAX_CONFIG_BYTES + 1)
        require(len(content) <= MAX_CONFIG_BYTES, "far too large for a configuration")
        return from_dict(json.loads(content))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} is damaged: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


class GrowingFile:
    """A file that only grows. What the disk refuses waits in memory and is tried again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: FileIO | None = None  # when it is first written to
        self._identity = (0, 0)  # of the opened file: a descriptor may come to mean another one
        self._waiting = bytearray()
        self.checksum = 0  # CRC-32 of everything in the file

    @property
    def _file(self) -> FileIO:
        if self._opened is None:
            make_own_folder(self._path.parent)
            self._opened = FileIO(self._path, "ab", opener=not_followed)
            self._identity = _identity(os.fstat(self._opened.fileno()))
        return self._opened

    def check(self) -> None:
        """Raise `RunFolderLost` if the open file was closed, removed or replaced by others."""
        if self._opened is not None:
            check_open(self._opened.fileno(), self._identity, self._path)

    def append(self, content: bytes) -> None:
        """Add to the file at once, or with the next `flush` that the disk accepts."""
        self._waiting += content
        with contextlib.suppress(OSError):  # not lost, and `flush` will say it
            self.flush()

    def flush(self) -> int:
        """Hand everything to the operating system; the size of the file in bytes."""
        self.check()
        while self._waiting:
            num_written = self._file.write(self._waiting) or 0
            self.checksum = zlib.crc32(self._waiting[:num_written], self.checksum)
            del self._waiting[:num_written]
        return os.fstat(self._file.fileno()).st_size

    def sync(self) -> None:
        """Bring what was flushed to disk."""
        os.fsync(self._file.fileno())

    def cut_back(self, size: int, checksum: int | None = None) -> str:
        """Forget what came after the first `size` bytes; what is wrong with these, "" if nothing.

        A line that is there in part only goes too, so that the next line stands alone.
        """
        self._waiting.clear()
        present = os.fstat(self._file.fileno()).st_size
        kept = size
        if present < size:
            kept = last_line_end(self._path)
        self._file.truncate(kept)
        self.checksum = checksum_of(self._path, kept)
        if kept < size:
            return f"{self._path.name} lacks {size - kept} bytes it once had"
        if checksum not in (None, self.checksum):
            return f"{self._path.name} was changed from outside: some of its lines may be damaged"
        return ""

    def close(self) -> None:
        """Close it. What still waits is lost."""
        if self._opened is not None:
            close_own(self._opened, self._identity)


def checksum_of(path: Path, size: int) -> int:
    """CRC-32 of the first `size` bytes of a file, or of all if there are fewer."""
    checksum = 0
    with open_plain(path) as file:
        while size > 0 and (chunk := file.read(min(size, _CHUNK_BYTES))):
            checksum = zlib.crc32(chunk, checksum)
            size -= len(chunk)
    return checksum


def last_line_end(path: Path) -> int:
    """Bytes of a file up to the end of its last whole line."""
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


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def check_open(descriptor: int, identity: tuple[int, int], path: Path) -> None:
    """Raise `RunFolderLost` unless a descriptor is open on the file that is at `path` still."""
    try:
        is_ours = _identity(os.fstat(descriptor)) == identity
    except OSError:
        is_ours = False
    if not is_ours:
        raise RunFolderLost(
            f"{path} was closed by other code in this process, perhaps by the environment"
        )
    try:
        is_there = _identity(path.stat()) == identity
    except OSError:
        is_there = False
    if not is_there:
        lost = path if path.parent.exists() else path.parent
        raise RunFolderLost(f"{lost} was removed, moved or replaced while the run was training")


def close_own(file: IO[Any], identity: tuple[int, int]) -> None:
    """Close a file, unless its descriptor belongs to others by now."""
    with contextlib.suppress(OSError):
        if _identity(os.fstat(file.fileno())) == identity:
            file.close()


class RunFolder:
    """An open run. Only one process may hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Not flock: the processes of environments inherit such a lock and may outlive us.
            self._lock = open(path / LOCK, "ab", buffering=0, opener=not_followed)  # noqa: SIM115
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._identity = _identity(os.fstat(self._lock.fileno()))
            self._journals = {name: GrowingFile(path / name) for name in JOURNALS}
        except BlockingIOError:
            raise ConfigError(f"{path} is in use by another agent57 process") from None
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def create(cls, path: Path, config: Config) -> "RunFolder":
        """A new run folder holding its configuration."""
        check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path)
            check_free(path)  # another process may have been quicker
            folder.write_config(config)
        except OSError as error:
            raise ConfigError(f"--out {path} cannot be written: {error.strerror}") from None
        return folder

    def check(self) -> None:
        """Raise `RunFolderLost` if the folder or a file of it was taken away."""
        check_open(self._lock.fileno(), self._identity, self.path / LOCK)
        for journal in self._journals.values():
            journal.check()

    def write_config(self, config: Config) -> None:
        """Replace the configuration, in one step."""
        write_atomic(self.path / CONFIG_FILE, json.dumps(to_dict(config), indent=2).encode())

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add one object to a journal."""
        self._journals[name].append(json.dumps(row).encode() + b"\n")

    def flush(self) -> dict[str, int]:
        """Write out what the journals still hold in memory; their sizes in bytes."""
        return {name: journal.flush() for name, journal in self._journals.items()}

    def sync(self) -> None:
        """Bring what was flushed to disk."""
        for journal in self._journals.values():
            journal.sync()

    def checksums(self) -> dict[str, int]:
        """CRC-32 of each journal as it was flushed."""
        return {name: journal.checksum for name, journal in self._journals.items()}

    def cut_back(self, sizes: dict[str, int], checksums: dict[str, int] | None = None) -> list[str]:
        """Forget what was written after the journals had these sizes; what is wrong with them."""
        known = checksums or {}
        found = [self._journals[name].cut_back(n, known.get(name)) for name, n in sizes.items()]
        return [text for text in found if text]

    def start_over(self) -> None:
        """Empty the journals of a run that was stopped before its first checkpoint."""
        require(
            self._journals["metrics.jsonl"].flush() == 0,
            f"{self.path} has records but no checkpoint: none could be written, as on a full "
            f"disk, or {CHECKPOINTS} was removed; train anew in another folder",
        )
        self.cut_back(dict.fromkeys(JOURNALS, 0))

    def close(self) -> None:
        """Close the journals and give the folder free."""
        for journal in self._journals.values():
            journal.close()
        close_own(self._lock, self._identity)


def check_free(path: Path) -> None:
    """Refuse a folder that already holds a run."""
    require(
        not (path / CONFIG_FILE).exists(),
        f"--out {path} already holds a run: continue it with `agent57 resume {path}` "
        f"or choose another folder",
    )
    require(
        not (path / CHECKPOINTS).exists(),
        f"--out {path} holds the checkpoints of a run without its {CONFIG_FILE}: "
        f"choose another folder",
    )
    require(not path.exists() or path.is_dir(), f"--out {path} is a file, not a folder")
