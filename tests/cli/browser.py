"""A headless Chromium that a test drives over the DevTools protocol, by the standard library alone."""

import base64
import http.client
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time

SECONDS = 60
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def program():
    """The browser's program; None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class WebSocket:
    """Messages of text between a client and a server on this machine."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.file = self.socket.makefile("rb")
        status = self.file.readline()
        if b" 101 " not in status:
            raise ConnectionError(f"expected a WebSocket, found {status!r}")
        while self.file.readline().strip():
            pass

    def send(self, text, kind=TEXT):
        data, mask = text.encode(), os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data)) if len(data) < 1 << 16 else b"\xff" + struct.pack(
            ">Q", len(data))
        self.socket.sendall(bytes([0x80 | kind]) + size + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def receive(self):
        message = b""
        while True:
            first, second = self.file.read(2)
            size = second & 0x7F
            if size == 126:
                size, = struct.unpack(">H", self.file.read(2))
            elif size == 127:
                size, = struct.unpack(">Q", self.file.read(8))
            data = self.file.read(size)
            kind = first & 0x0F
            if kind == PING:
                self.send(data.decode(), PONG)
            elif kind == CLOSE:
                raise ConnectionError("the browser closed the connection")
            elif kind != PONG:
                message += data
                if first & 0x80:
                    return message.decode()

    def close(self):
        self.file.close()
        self.socket.close()


class Browser:
    """A page of a headless browser, for `with`."""

    def __init__(self, width=1280, height=860):
        self.folder = tempfile.mkdtemp(prefix="moh-browser-")
        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
             f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder})
        self.number, self.messages, self.page = 0, [], None
        try:
            self.page = self.connect()
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def connect(self):
        ports = pathlib.Path(self.folder, "DevToolsActivePort")
        end = time.monotonic() + SECONDS
        while not (ports.exists() and "\n" in ports.read_text()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("the browser did not start")
            time.sleep(0.05)
        port = int(ports.read_text().split()[0])
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
            connection.request("GET", "/json/list")
            pages = [target for target in json.loads(connection.getresponse().read()) if target["type"] == "page"]
            connection.close()
            if pages:
                return WebSocket(port, pages[0]["webSocketDebuggerUrl"].split(str(port), 1)[1])
            time.sleep(0.05)

    def call(self, method, **parameters):
        """The result of a command. Events that come before it are kept in `messages`."""
        self.number += 1
        self.page.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.page.receive())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.messages.append(message)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression):
        """The value of a JavaScript expression, or of the promise that it is."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds=SECONDS):
        end = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise RuntimeError(f"not true after {seconds} s: {expression}")
            time.sleep(0.05)
        return value

    def faults(self):
        """What the page's console says of errors, such as what the content security policy refused."""
        self.evaluate("0")
        return [message["params"] for message in self.messages if message["method"] == "Runtime.exceptionThrown"
                or (message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] == "error")]

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        if self.page:
            self.page.close()
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
