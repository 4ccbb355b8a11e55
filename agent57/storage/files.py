"""Plain files of a run: opened without following links, written whole or not at all."""

import errno
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path


class RunFolderLost(RuntimeError):
    """A file of the run was moved, removed or closed; the message names it."""


def open_plain(path: Path) -> BufferedReader:
    """Open a file for reading. Refuse pipes, devices and folders, which may never end."""
    file = open(path, "rb", opener=_not_waiting)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return file


def _not_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)  # opening a pipe would wait for a writer


def not_followed(name: str, flags: int) -> int:
    """Open a file for writing; refuse symbolic links and anything but plain files."""
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
    """Make a folder inside the run folder. Refuse a symbolic link, which may lead outside."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link is not written through", str(path))
    path.mkdir(exist_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds either the old or the new content, never a part."""
    write_parts(path, [content])


def write_parts(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file part by part under a temporary name, sync it to disk, and rename it.

    Nothing is left behind if this fails. A device, such as /dev/stdout, is not replaced.
    """
    if path.is_dir():  # including ".", which has no name
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with open(temporary, "wb", opener=not_followed) as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except Exception:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
