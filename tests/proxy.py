"""A connection between a worker and its database that can be cut."""

import socket
from threading import Thread


class Proxy:
    """Forwards bytes to a server until it is cut, then drops them."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._is_cut = False
        self._accepting = Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "Proxy":
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # ends the wait for a connection
        self._accepting.join()
        for connection in (self._listener, *self._sockets):
            connection.close()

    def cut(self) -> None:
        self._is_cut = True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while block := source.recv(65536):
                if not self._is_cut:
                    target.sendall(block)
            if not self._is_cut:
                target.shutdown(socket.SHUT_WR)
        except OSError:
            return
