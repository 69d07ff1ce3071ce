"""Confine the process that parses hostile files: no other files, network, programs or processes.

Landlock restricts files, a seccomp filter the rest. They need no privileges and cannot be lifted. macOS has neither.
"""

import ctypes
import errno
import os
import platform
import signal
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

# From <linux/landlock.h>; the same on every processor.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
# Number of rights that each version of Landlock can restrict; 16 from version 5 on.
N_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
READ, FILE_RIGHTS = EXECUTE | READ_FILE | READ_DIR, EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
REMOVE_FOLDER, REMOVE_FILE, MAKE_FOLDER, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
# No right to make links: the parent will read the folder, and may read what the child may not.
WRITE = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REMOVE_FOLDER | REMOVE_FILE | MAKE_FOLDER | MAKE_FILE
VERSION_FLAG = PATH_RULE = 1
SYSTEM_PATHS = (
    "/usr", "/lib", "/lib64", "/nix/store", "/home/linuxbrew", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system",
)  # fmt: skip
LIBRARY_SUFFIXES = (".py", ".so", ".libs")
SET_DEATH_SIGNAL, SET_SECCOMP, FILTER_MODE, SET_NO_NEW_PRIVILEGES = 1, 22, 2, 38
CAPABILITIES_VERSION = 0x20080522
# Capabilities that ignore file permissions, because root may serve another user's folder. Landlock restricts root too.
KEPT_CAPABILITIES = 0b110
# Index of each processor in the tuples below, and its seccomp architecture.
PROCESSORS = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# Includes changes of files that Landlock allows: modes, owners, attributes, and before version 3 truncation.
DENIED_CALLS = {
    "socket": (41, 198), "socketpair": (53, 199), "io_uring_setup": (425, 425), "execve": (59, 221),
    "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "unshare": (272, 97), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "keyctl": (250, 219), "shmat": (30, 196),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "truncate": (76, 45), "open_by_handle_at": (304, 265),
}  # fmt: skip
# Calls that a process may make on itself only.
OWN_PROCESS_CALLS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "prlimit64": (302, 261)}
CLONE, CLONE3, CLONE_THREAD = (56, 220), 435, 0x10000
FIRST_X32_CALL = 0x40000000
# Operations of a filter, offsets of the values that it can load, and the results that it can return.
LOAD, IF_EQUAL, IF_AT_LEAST, IF_BIT_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
CALL, PROCESSOR, FIRST_ARGUMENT = 0, 4, 16
ALLOW, DENY, NO_SUCH_CALL, KILL = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x80000000

libc = ctypes.CDLL(None, use_errno=True)


def missing_protections() -> list[str]:
    if sys.platform != "linux":
        return ["Landlock", "seccomp"]
    # Where filters exist, setting none at all fails with EFAULT. Some emulators lack them.
    libc.prctl(SET_SECCOMP, ctypes.c_ulong(FILTER_MODE), None, None, None)
    has_seccomp = platform.machine() in PROCESSORS and ctypes.get_errno() == errno.EFAULT
    return ["Landlock"] * (_landlock_version() < 1) + ["seccomp"] * (not has_seccomp)


def confine(readable: Iterable[Path], writable: Path | None) -> None:
    """Restrict this process to what Python needs, ``readable`` paths and the folder ``writable``.

    Skips what the system does not support. The process must have one thread, because others would keep their rights.
    """
    if sys.platform != "linux":
        return
    missing = missing_protections()
    _call(libc.prctl, SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    _call(libc.prctl, SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    header, buffer = struct.pack("Ii", CAPABILITIES_VERSION, 0), ctypes.create_string_buffer(24)
    _call(libc.capget, header, buffer)
    effective, permitted, *_ = (capabilities & KEPT_CAPABILITIES for capabilities in struct.unpack("6I", buffer.raw))
    _call(libc.capset, header, struct.pack("6I", effective, permitted, 0, 0, 0, 0))
    if "Landlock" not in missing:
        _restrict_files(readable, writable)
    if "seccomp" not in missing:
        _deny_calls()


def _landlock_version() -> int:
    """Return the kernel's version of Landlock, from 1; -1 if it has none."""
    return int(libc.syscall(CREATE_RULESET, None, ctypes.c_ulong(0), VERSION_FLAG))


def _call(function: Callable[..., int], *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Return the result of a C function. Raise OSError if it is negative."""
    result = function(*(ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _restrict_files(readable: Iterable[Path], writable: Path | None) -> None:
    """Deny access to all files except Python's, ``readable`` paths, the folder ``writable`` and /dev/null."""
    known_rights = (1 << N_RIGHTS.get(_landlock_version(), 16)) - 1
    ruleset = _call(libc.syscall, CREATE_RULESET, struct.pack("Q", known_rights), 8, 0)
    rights = {Path(entry): READ_DIR for entry in sys.path} | dict.fromkeys((*_python_paths(), *readable), READ)
    rights |= {Path("/dev/null"): READ_FILE | WRITE_FILE} | ({} if writable is None else {writable: WRITE})
    for path, path_rights in rights.items():
        try:
            descriptor = os.open(path, os.O_PATH)
        except OSError:  # missing on this system, or deleted, which its reader will report
            continue
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if allowed := path_rights & (known_rights if is_folder else known_rights & FILE_RIGHTS):
            _call(libc.syscall, ADD_RULE, ruleset, PATH_RULE, struct.pack("=Qi", allowed, descriptor), 0)
        os.close(descriptor)
    _call(libc.syscall, RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _python_paths() -> Iterator[Path]:
    """Yield Python's libraries and the modules on its path, but no other files in those folders."""
    prefixes = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    library_path = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    yield from (*prefixes, *map(Path, SYSTEM_PATHS), *map(Path, filter(None, library_path)))
    for entry in map(Path, sys.path):
        if not os.access(entry, os.R_OK) or not entry.is_dir():
            continue
        if entry.name in ("site-packages", "dist-packages"):
            yield entry
            yield from filter(Path.is_symlink, entry.iterdir())  # installers may link packages from a cache
        elif not any(map(entry.is_relative_to, prefixes)):
            # Do not allow the whole folder: a checkout may contain .env and the data folder.
            yield from (path for path in entry.iterdir() if path.suffix in LIBRARY_SUFFIXES or any(path.glob("*.py")))


def _deny_calls() -> None:
    """Install a seccomp filter for this process. It is a program of jumps that runs before every system call."""
    column, architecture = PROCESSORS[platform.machine()]
    # Each instruction: operation, how many instructions to skip if its condition is true or false, and operand.
    program = [
        (LOAD, 0, 0, PROCESSOR), (IF_EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, CALL), (IF_AT_LEAST, 0, 1, FIRST_X32_CALL), (RETURN, 0, 0, DENY),
        # A filter cannot read the flags of clone3, so make the C library fall back to clone.
        (IF_EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, NO_SUCH_CALL),
        (IF_EQUAL, 0, 4, CLONE[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (IF_BIT_SET, 1, 0, CLONE_THREAD),
        (RETURN, 0, 0, DENY), (RETURN, 0, 0, ALLOW),
    ]  # fmt: skip
    for number in (numbers[column] for numbers in DENIED_CALLS.values()):
        program += [] if number is None else [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, DENY)]
    for number in (numbers[column] for numbers in OWN_PROCESS_CALLS.values()):
        program += [(IF_EQUAL, 0, 5, number), (LOAD, 0, 0, FIRST_ARGUMENT), (IF_EQUAL, 2, 0, 0)]
        program += [(IF_EQUAL, 1, 0, os.getpid()), (RETURN, 0, 0, DENY), (RETURN, 0, 0, ALLOW)]
    program.append((RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    _call(libc.prctl, SET_SECCOMP, FILTER_MODE, struct.pack("HP", len(program), ctypes.addressof(code)), 0, 0)
