"""Reports to the service manager (systemd's sd_notify), if it asked for that."""

import contextlib
import os
import socket


def notify(*words: str) -> None:
    """Send a state such as READY=1 to the socket that NOTIFY_SOCKET names, if it names one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    where = f"\0{address[1:]}" if address.startswith("@") else address
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto("\n".join(words).encode(), where)
