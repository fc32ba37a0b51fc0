"""Who knocks at the guests' door without the secret holds nothing up, and nothing of theirs is kept."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing

from support.gateways import ThreadedGateway

MakeGateway = Callable[..., ThreadedGateway]


def knock(gateway: ThreadedGateway, head: str) -> socket.socket:
    door = gateway.service.host._door
    assert door is not None
    sock = socket.create_connection(("127.0.0.1", door.port), 10)
    sock.sendall(head.encode())
    return sock


def hung_up(sock: socket.socket) -> bool:
    sock.settimeout(10)
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_strangers_body_is_not_waited_for(gateway: ThreadedGateway) -> None:
    head = "POST /nodes/x/invoke HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n{"
    with closing(knock(gateway, head)) as sock:
        assert sock.recv(65536).startswith(b"HTTP/1.1 401")


def test_a_stranger_has_its_time_and_a_guest_has_all(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"request_timeout": 0.5, "idle_timeout": 0.5, "body_timeout": 0.5})
    door = gateway.service.host._door
    assert door is not None
    head = f"GET /guest HTTP/1.1\r\nHost: x\r\nX-Suzent-Guest: {door.secret}\r\n\r\n"
    with closing(knock(gateway, head)) as line, closing(knock(gateway, "GET / HTTP/1.1\r\n")) as stranger:
        assert line.recv(65536).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        assert hung_up(stranger)
        assert time.monotonic() - began > 0.3
        line.settimeout(1.0)
        try:
            while chunk := line.recv(65536):
                assert chunk in (b"3\r\n{}\n\r\n", b"{}\n", b"")
            raise AssertionError("the line was cut")
        except TimeoutError:
            pass


def test_strangers_leave_room(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"connections_unknown": 3})
    sockets = [knock(gateway, "") for _ in range(5)]
    assert [hung_up(sock) for sock in sockets[:2]] == [True, True]
    for sock in sockets:
        sock.close()
