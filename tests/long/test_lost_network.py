import socket
import time
from signal import SIGCONT, SIGSTOP
from threading import Thread
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg

from app.db.models import RunStatus
from tests.machines import PATIENCE_SECONDS, check_finished, launch, runs_of, start_two, wait_until_training
from tests.waiting import wait_for
from workers.locks import FENCED_EXIT_CODE


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


def test_machine_that_lost_its_run_adds_nothing_after_waking(context, machine):
    victim, survivor = start_two(context, machine)
    victim.signal(SIGSTOP)
    # The server does this when a machine has not answered keepalives for 25 seconds.
    end_sessions(victim, context.settings.queue)
    wait_for(lambda: runs_of(context)[0].worker == survivor.slot, PATIENCE_SECONDS)
    victim.signal(SIGCONT)
    wait_for(lambda: runs_of(context)[0].status is RunStatus.FINISHED, PATIENCE_SECONDS)
    check_finished(context, survivor.slot)


def test_worker_without_database_ends_itself_and_its_jobs(context, machine, settings):
    address = urlsplit(settings.database_url)
    with Proxy(address.hostname, address.port) as proxy:
        through = address._replace(netloc=f"isoscope@127.0.0.1:{proxy.port}")
        worker = machine("alpha", urlunsplit(through))
        launch(context, steps=100_000, lambdas=[0.0], seeds=[0])
        wait_until_training(context)
        tree = worker.tree()
        proxy.cut()
        cut_at = time.monotonic()
        assert worker.process.wait(60) == FENCED_EXIT_CODE
        assert 15 < time.monotonic() - cut_at < 25
    wait_for(lambda: all(has_ended(process) for process in tree))
    assert "no answer from PostgreSQL for 20 s" in worker.log()
    assert runs_of(context)[0].error is None


def has_ended(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end_sessions(machine, url):
    ports = {c.laddr.port for process in machine.tree() for c in process.net_connections() if c.raddr}
    ending = "select pg_terminate_backend(pid) from pg_stat_activity where client_port = any(%s)"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(ending, (list(ports),))
