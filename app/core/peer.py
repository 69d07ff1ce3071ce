"""Find the user of this machine at the other end of a TCP connection.

The kernel looks up a single socket, because reading /proc/net/tcp takes milliseconds. Ports are reused, so no answer is
cached. In the kernel's answer, a socket that its process has closed belongs to root.
"""

import errno
import socket
import struct
from ipaddress import ip_address
from typing import NamedTuple

NOBODY = -1
"""Stands for the user of a connection that its process has closed."""
ESTABLISHED = 1
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, REQUEST, ERROR = 4, 20, 1, 2
HEADER, SOCKET_ID = struct.Struct("=IHHII"), struct.Struct("!HH16s16s4s8s")
ANY_STATE, ANY_COOKIE = 0xFFFFFFFF, b"\xff" * 8

SocketAddress = tuple[str, int]


class SocketRow(NamedTuple):
    """The kernel's record of a socket. The inode is 0 if no process holds it."""

    state: int
    uid: int
    inode: int


def peer_uid(client: SocketAddress, server: SocketAddress) -> int | None:
    """Return the id of the user who holds the client's end of a connection; NOBODY if that end is closed.

    Returns None if the client is on another machine or the kernel does not answer.
    """
    try:
        if (row := _find_socket(client, server)) is not None:
            return row.uid if row.inode else NOBODY
        # Look up our end after the client's. If ours is still connected, the client's end is on another machine.
        server_row = _find_socket(server, client)
    except (AttributeError, OSError, ValueError):  # no Linux, not permitted, no IP address
        return None
    return None if server_row is not None and server_row.state == ESTABLISHED else NOBODY


def _find_socket(local: SocketAddress, remote: SocketAddress) -> SocketRow | None:
    """Return the kernel's record of the socket with these two addresses; None if this machine has no such socket."""
    local_ip, remote_ip = ip_address(local[0]), ip_address(remote[0])
    family = socket.AF_INET if local_ip.version == 4 else socket.AF_INET6
    socket_id = SOCKET_ID.pack(local[1], remote[1], local_ip.packed, remote_ip.packed, bytes(4), ANY_COOKIE)
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + socket_id
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, REQUEST, 0, 0) + request)
        reply = kernel.recv(4096)
    message_type, body = HEADER.unpack_from(reply)[1], reply[HEADER.size :]
    if message_type == ERROR:
        if (error_number := -struct.unpack_from("=i", body)[0]) == errno.ENOENT:
            return None
        raise OSError(error_number, "The kernel cannot look up sockets.")
    _, state = struct.unpack_from("=BB", body)
    return SocketRow(state, *struct.unpack_from("=II", body, 4 + SOCKET_ID.size + 12))
