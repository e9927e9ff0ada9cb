"""A headless Chromium, spoken to over a pipe by the DevTools protocol: nothing listens on a port, no library is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ANSWER_S = 60.0


def find_browser():
    """The program's path, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process; a context manager that ends it."""

    def __init__(self, program: str, folder: Path) -> None:
        self._in, theirs_out = os.pipe()
        theirs_in, self._out = os.pipe()
        # The shell puts the ends on 3 and 4, where Chromium looks for them, whatever numbers they have here.
        command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        options = [
            "--headless", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars", "--disable-dev-shm-usage",
            "--no-first-run", f"--user-data-dir={folder}", *(["--no-sandbox"] if os.geteuid() == 0 else []),
        ]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, *options],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._buffer, self._session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in (self._in, self._out):
            os.close(end)
        self._process.terminate()
        self._process.wait(30)

    def call(self, method, **parameters):
        """Ask, and wait for the answer; events that come meanwhile are kept from nobody, since nobody asks for them."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _read(self):
        deadline = time.monotonic() + _ANSWER_S
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path, width=1280, height=900, *, dark=False, media="screen"):
        """Load a file at that size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") != path.as_uri():
            self.evaluate("new Promise(done => setTimeout(done, 10))")

    def evaluate(self, expression):
        """A value of the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, path: Path, top=0, height=None):
        """The whole page, or a part of it, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": height or size["height"] - top, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self, path: Path):
        """The page as it is printed, by someone who likes it dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark"}
        self.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))
