"""A model behind `moh serve`, and the harness that asks it."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import places

from .benchmarks import Refused

START_SECONDS = 1800  # a large model is read from a disk
END_SECONDS = 60
LAST_LINES = 20
ADDRESS = re.compile(r" at (http://\S+)$")


class Server:
    """`moh serve` at a free port, as long as the `with` block runs."""

    def __init__(self, moh, checkpoint, settings):
        self.command = [str(moh), "serve", "--checkpoint", str(checkpoint), "--port", "0", *settings]
        self.lines, self.url, self.changed = [], None, threading.Condition()

    def __enter__(self):
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                            text=True, errors="replace", start_new_session=True)
        except OSError as error:
            raise Refused(f"--moh: {error}; build it (README.md), or name it: --moh FILE") from error
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        try:
            self.await_address()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines = [*self.lines[-LAST_LINES:], line.rstrip()]
                found = ADDRESS.search(line.rstrip())
                self.url = self.url or (found and found.group(1))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def await_address(self):
        end = time.monotonic() + START_SECONDS
        with self.changed:
            while self.url is None:
                if not self.reader.is_alive() or self.process.poll() is not None:
                    self.process.wait(END_SECONDS)
                    raise Refused(self.ended("before it served"))
                if time.monotonic() > end:
                    raise Refused(f"moh serve: expected its address within {START_SECONDS} s, found none; its last lines:\n{self.last()}")
                self.changed.wait(0.2)

    def last(self):
        return "\n".join(f"  {line}" for line in self.lines)

    def ended(self, when):
        return f"moh serve ended with code {self.process.poll()} {when}; its last lines:\n{self.last()}"

    def max_length(self):
        with urllib.request.urlopen(self.url + "/v1/models", timeout=60) as answer:
            return json.load(answer)["data"][0]["max_model_len"]


def require_harness(python):
    code = "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))"
    packages = ("lm_eval", "aiohttp", "tenacity", "datasets")
    # From another folder: this one's lm_eval.py is no package.
    if subprocess.run([python, "-c", code, *packages], cwd="/", check=False).returncode != 0:
        raise Refused(f"{python}: expected the packages {', '.join(packages)}, found not all of them; scripts/pytorch_venv.sh gets them, "
                      f"or: {python} -m pip install 'lm_eval[api]'")


def harness_folder(python):
    code = "import importlib.util; print(importlib.util.find_spec('lm_eval').submodule_search_locations[0])"
    return pathlib.Path(subprocess.run([python, "-c", code], cwd="/", check=True, capture_output=True, text=True).stdout.strip())


def default_python():
    """That of the environment of scripts/pytorch_venv.sh, if there is one, as for the tests."""
    venv = pathlib.Path(os.environ.get("MOH_PYTORCH_VENV", places.ROOT / "build/pytorch-venv")) / "bin/python"
    return str(venv) if venv.exists() else sys.executable


def ask(python, server, job):
    """The harness's results. It is ended when the server ends: its client would ask again and again."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("job.json", "result.json")]
        files[0].write_text(json.dumps({**job, "url": server.url, "max_length": server.max_length()}, ensure_ascii=False), encoding="utf-8")
        program = pathlib.Path(__file__).with_name("harness.py")
        process = subprocess.Popen([python, "-B", str(program), *map(str, files)], stdin=subprocess.DEVNULL, stdout=sys.stderr)
        try:
            while process.poll() is None:
                if server.process.poll() is not None:
                    raise Refused(server.ended("while it was asked"))
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        if process.returncode != 0:
            if server.process.poll() is not None:
                raise Refused(server.ended("while it was asked"))
            raise Refused(f"lm-evaluation-harness ended with code {process.returncode}; what it says is above")
        return json.loads(files[1].read_text(encoding="utf-8"))
