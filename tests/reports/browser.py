"""Reports in a real browser: Chromium, headless, at pages that this process serves.

``python -m tests.reports.browser DIRECTORY`` takes pictures of all reports.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal

from tornado.websocket import WebSocketClientConnection, websocket_connect

__all__ = ["HOSTS", "SCHEMES", "Scheme", "chromium", "facts", "page", "steered", "take_picture"]

Scheme = Literal["light", "dark"]

SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
SECONDS: Final = 120
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNPACKED: Final = Path(sys.prefix, "chromium", "chromium")
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
PREFERRED: Final = {"dark": "0", "light": "1"}  # of Blink's enumeration

JUPYTER: Final = {
    "light": "--jp-layout-color0:#fff;--jp-content-font-color1:rgba(0,0,0,.87);",
    "dark": "--jp-layout-color0:#111;--jp-content-font-color1:rgba(255,255,255,1);",
}
JUPYTER_TABLES: Final = """
.jp-RenderedHTMLCommon table{border-collapse:collapse;border-spacing:0;border:none;font-size:12px;table-layout:fixed;
  margin-left:auto;margin-bottom:1em;margin-right:auto}
.jp-RenderedHTMLCommon td,.jp-RenderedHTMLCommon th,.jp-RenderedHTMLCommon tr{vertical-align:middle;padding:.5em;
  line-height:normal;white-space:normal;max-width:none;border:none}
.jp-RenderedHTMLCommon tbody tr:nth-child(odd){background:#f5f5f5}
.jp-RenderedHTMLCommon:not(.jp-RenderedMarkdown) td{text-align:right}
"""
VSCODE: Final = {
    "light": "--vscode-editor-background:#ffffff;--vscode-editor-foreground:#3b3b3b;",
    "dark": "--vscode-editor-background:#1f1f1f;--vscode-editor-foreground:#cccccc;",
}


def _plain(scheme: Scheme) -> tuple[str, str]:
    """Make a page that says nothing on colours."""
    return "", ""


def _jupyter(scheme: Scheme) -> tuple[str, str]:
    light = str(scheme == "light").lower()
    css = f"body{{{JUPYTER[scheme]}background:var(--jp-layout-color0)}}{JUPYTER_TABLES}"
    return f'class="jp-RenderedHTMLCommon" data-jp-theme-light="{light}"', css


def _vscode(scheme: Scheme) -> tuple[str, str]:
    return f'class="vscode-{scheme}"', f"body{{{VSCODE[scheme]}background:var(--vscode-editor-background)}}"


HOSTS: Final = {"plain": _plain, "jupyter": _jupyter, "vscode": _vscode}


def page(shown: dict[str, Any], host: str, scheme: Scheme, script: str = "") -> str:
    """Return a page as this host makes it, with everything that shows itself."""
    attributes, css = HOSTS[host](scheme)
    body = "".join(f'<section id="{name}">{one._repr_html_()}</section>' for name, one in shown.items())
    return (
        '<!doctype html><html><head><meta charset="utf-8"><title>untouched</title>'
        f"<style>{css}section{{margin:0 0 14px}}</style></head><body {attributes}>{body}{script}</body></html>"
    )


def chromium() -> str:
    """Return the program: ``CHROMIUM`` in the environment, one that is installed, or what `make chromium` unpacked."""
    unpacked = str(UNPACKED) if UNPACKED.exists() else None
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None) or unpacked
    if found is None:
        raise AssertionError(
            "these tests look at reports in a real browser, and there is none: run `make chromium`, install it (on"
            " Debian `apt install chromium`), or name one in the environment variable CHROMIUM"
        )
    return found


def _environment() -> dict[str, str]:
    """Let an unpacked Chromium find the libraries and fonts it brings, after those of the machine."""
    directory = Path(chromium()).parent
    libraries = filter(None, (os.environ.get("LD_LIBRARY_PATH"), str(directory / "lib")))
    fonts = {} if Path("/etc/fonts").exists() else {"FONTCONFIG_PATH": str(directory)}
    return {**os.environ, **fonts, "LD_LIBRARY_PATH": ":".join(libraries)}


def facts(content: str, scheme: Scheme, script: str) -> tuple[Any, list[str]]:
    """Open a page, return what ``script`` returns there, and the paths that were asked for beside the page's own.

    A failing script is an error here.
    """
    report = (
        "<script>addEventListener('load',async()=>{let found;"
        f"try{{found=await (async()=>{{{script}}})()}}catch(error){{found={{error:String(error)}}}}"
        "await fetch('/facts',{method:'POST',body:JSON.stringify(found)})})</script>"
    )
    with (
        _served(content.replace("</body></html>", f"{report}</body></html>")) as served,
        _browsing(scheme, served.url) as browser,
    ):
        if not served.answered.wait(SECONDS):
            raise AssertionError(f"the browser did not answer in {SECONDS} s (exit code {browser.poll()})")
    if isinstance(served.found, dict) and "error" in served.found:
        raise AssertionError(served.found["error"])
    return served.found, served.asked


def take_picture(content: str, scheme: Scheme, file: Path, size: str = "1250,4200") -> None:
    """Take a picture of a page, of this width and at most of this height."""
    width, height = map(int, size.split(","))
    with steered(content, scheme, width) as tab:
        shown = tab.run("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, shown), "scale": 1}
        picture = tab.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(picture["data"]))


class Tab:
    """A page in the browser, steered by the browser's own protocol."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._socket = self._loop.run_until_complete(_connected(address))
        self._number = 0

    def call(self, method: str, **named: Any) -> Any:
        """Call one method of the protocol, and wait for its answer."""
        return self._loop.run_until_complete(self._call(method, named))

    async def _call(self, method: str, named: dict[str, Any]) -> Any:
        self._number += 1
        await self._socket.write_message(json.dumps({"id": self._number, "method": method, "params": named}))
        while True:
            answer = json.loads(await self._socket.read_message() or "{}")
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def run(self, script: str) -> Any:
        """Return what a script returns in the page."""
        found = self.call("Runtime.evaluate", expression=f"(()=>{{{script}}})()", returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key of the keyboard, as a person does."""
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)

    def close(self) -> None:
        self._loop.run_until_complete(self._closed())
        self._loop.close()

    async def _closed(self) -> None:
        self._socket.close()


async def _connected(address: str) -> WebSocketClientConnection:
    return await websocket_connect(address, max_message_size=2**28)


@contextmanager
def steered(content: str, scheme: Scheme, width: int) -> Iterator[Tab]:
    """Open a page of this width, as it is, and steer it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        html = Path(directory, "page.html")
        html.write_text(content, encoding="utf-8", errors="surrogatepass")
        with _browsing(scheme, html.as_uri(), Path(directory, "profile")):
            tab = Tab(_address(Path(directory, "profile", "DevToolsActivePort")))
            tab.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
            )
            while not tab.run("return location.protocol === 'file:' && document.readyState === 'complete'"):
                time.sleep(0.02)
            try:
                yield tab
            finally:
                tab.close()


def _address(file: Path) -> str:
    """Wait until the browser has said where it listens, and return the address of its page."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with suppress(OSError, IndexError, StopIteration):
            port = int(file.read_text().splitlines()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                pages = (one for one in json.load(answer) if one["type"] == "page")
                return str(next(pages)["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise AssertionError(f"the browser did not answer in {SECONDS} s")


class _Served:
    """A page, what was asked for, and what it found."""

    def __init__(self, content: str) -> None:
        self.content = content.encode()
        self.asked: list[str] = []
        self.found: Any = None
        self.answered = threading.Event()
        self.url = ""


@contextmanager
def _served(content: str) -> Iterator[_Served]:
    served = _Served(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/page":
                self._answer(served.content)
            else:
                served.asked.append(self.path)
                self._answer(b"")

        def do_POST(self) -> None:
            served.found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(b"")
            served.answered.set()

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{server.server_port}/page"
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _browsing(scheme: Scheme, url: str, profile: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        settings = f"--blink-settings=preferredColorScheme={PREFERRED[scheme]}"
        user_data = f"--user-data-dir={profile or Path(directory, 'profile')}"
        command = [chromium(), *FLAGS, user_data, settings, "--remote-debugging-port=0", url]
        null = subprocess.DEVNULL
        with subprocess.Popen(command, env=_environment(), stdout=null, stderr=null, start_new_session=True) as browser:
            try:
                yield browser
            finally:
                os.killpg(browser.pid, signal.SIGKILL)


def _take_pictures(directory: Path) -> None:
    from tests.reports.gallery import hostile, pictured, usual

    for scheme in SCHEMES:
        for name, shown in (("usual", usual()), ("hostile", hostile())):
            for host in HOSTS:
                take_picture(page(shown, host, scheme), scheme, directory / f"{name}-{host}-{scheme}.png")
        file = directory / f"report-{scheme}.png"  # of docs/_static
        take_picture(page(pictured(), "jupyter", scheme), scheme, file, "1240,630")


if __name__ == "__main__":
    _take_pictures(Path(sys.argv[1]))
