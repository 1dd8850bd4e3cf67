"""moto's server, whose conditional puts are atomic: moto looks for the key first, and puts the object later.

It is run as a process of its own, with the arguments of ``moto_server``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from moto import server
from werkzeug.serving import run_simple

CONDITIONS: Final = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def one_at_a_time(application: Application) -> Application:
    """Answer requests on a condition one after the other."""
    lock = threading.Lock()

    def locked_application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not any(name in environ for name in CONDITIONS):
            return application(environ, start_response)
        with lock:
            return application(environ, start_response)

    return locked_application


def run(host: str, port: int, application: Application, **options: Any) -> None:
    """Serve as Werkzeug does."""
    run_simple(host, port, one_at_a_time(application), **options)


if __name__ == "__main__":
    vars(server)["run_simple"] = run
    server.main()
