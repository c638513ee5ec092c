"""What the tests of the moh program share: a folder per test, a tiny configuration, running moh, reading what a run
leaves behind.

The program is found in MOH_BINARY. Everything is small enough for a run to take about a tenth of a second.
"""

import array
import ast
import copy
import fcntl
import json
import math
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import zipfile
import zlib

MOH = os.environ.get("MOH_BINARY", "moh")
TOKENIZERS = pathlib.Path(__file__).resolve().parents[1] / "train/tokenizers/data"

# Exit codes of the program (train/apps/cli/commands.h).
DONE, CONFIG_ERROR, INPUT_ERROR, NUMERIC_ABORT, STORAGE_ERROR, PREEMPTED = 0, 2, 3, 4, 5, 75

# Long enough for a sanitizer build on a busy machine; a run that takes longer hangs.
TIMEOUT_SECONDS = 120

# A file may be skipped as a whole: ctest reads this exit code.
SKIPPED = 77

TINY = {
    "seed": 3,
    "threads": 1,
    "output": {"dir": "run"},
    "model": {
        "layers": 2,
        "hidden": 32,
        "intermediate": 48,
        "heads": 4,
        "max_positions": 32,
        "moh": {"router": "learned", "num_shared": 1, "top_k": 1},
    },
    "data": {"train": "text.txt", "sequence_length": 32},
    "train": {"steps": 8, "batch_size": 4},
    "optim": {"learning_rate": 0.003},
    "schedule": {"warmup_steps": 2, "warmup_start": 0.001},
    "log": {"every": 1},
    "eval": {"every": 4},
    "checkpoint": {"every": 4, "keep_last": 2, "keep_best": False},
    "sample": {"tokens": 0},
}

# To be laid over TINY.
DENSE = {"model.moh.router": "none", "model.moh.num_shared": 0, "model.moh.top_k": 0}
QUERY_NORM = {"model.moh.router": "query_norm"}

# As small as they come, for tests in which it is the saving that counts.
SMALLEST = {**DENSE, "model.layers": 1, "model.hidden": 16, "model.heads": 2, "model.intermediate": 16,
            "model.max_positions": 16, "data.sequence_length": 16, "data.validation_fraction": 0.02}

WORDS = "the head token mixture of and router keeps few a gate loss of Heads that each Token needs".split()


def text_of_words(count, seed=1):
    """Reproducible text with something to learn in it."""
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(count)) + "\n"


def safetensors(header, data):
    """A safetensors file."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# The model of runs with diffusion: a small MoH-DiT for drawn pictures.
TINY_DIT = """\
model:
  image_size: 8
  patch_size: 2
  channels: 3
  classes: 8
  layers: 2
  hidden: 32
  heads: 4
  moh: {router: learned, num_shared: [1, 4], top_k: [2, 0]}
"""
DIT_RUN = """\
task: diffusion
seed: 3
threads: 2
output: {dir: run}
""" + TINY_DIT + """\
data: {drawn: 64, drawn_validation: 16}
train: {steps: 6, batch_size: 4, accumulate: 2}
optim: {learning_rate: 0.003}
ema: {decay: 0.9}
log: {every: 1}
eval: {every: 3}
checkpoint: {every: 3, keep_last: 99, keep_best: false}
"""


def npz(path):
    """name: (type as NumPy names it, shape, bytes) of the arrays of an .npz file, read by the standard library's zipfile, which checks
    sizes and checksums."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            data = archive.read(name)
            assert data[:8] == b"\x93NUMPY\x01\x00" and name.endswith(".npy")
            (length,) = struct.unpack("<H", data[8:10])
            assert (10 + length) % 64 == 0
            header = ast.literal_eval(data[10 : 10 + length].decode())
            assert not header["fortran_order"]
            arrays[name.removesuffix(".npy")] = (header["descr"], header["shape"], data[10 + length :])
    return arrays


def png(width, height, rows):
    """A PNG file of 8-bit RGB rows."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def merged(settings):
    """TINY with dotted keys replaced: {"train.steps": 4}."""
    config = copy.deepcopy(TINY)
    for key, value in settings.items():
        *sections, name = key.split(".")
        section = config
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return config


def to_yaml(section, indent=""):
    lines = []
    for key, value in section.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", to_yaml(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {value if isinstance(value, str) else json.dumps(value)}")
    return "\n".join(lines)


def environment(extra=None):
    """That of this process, without what would change the program's behaviour, and what is given."""
    keep = {name: value for name, value in os.environ.items() if name not in ("MOH_FAIL", "MOH_LOG")}
    return {**keep, **(extra or {})}


def memory_folder():
    """A file system in memory, when it has room, unless TMPDIR names another place. The runs save at nearly every
    step; on a disk they would do little but wait for it. What power cuts do is tested elsewhere, by replaying writes.
    """
    memory = "/dev/shm"
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 48 << 20:
        return None
    return memory


def build_has_failpoints():
    """Whether MOH_FAIL means anything to this build: nonsense in it is refused only then."""
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "text.txt")
        text.write_text("some text")
        result = subprocess.run(
            [MOH, "data", "tokenize", "--input", text, "--output", text.with_suffix(".tokens")],
            env=environment({"MOH_FAIL": "nonsense"}), capture_output=True, timeout=TIMEOUT_SECONDS)
        return result.returncode != DONE


# moh leaves ignored what its parent ignores, and a script's background jobs ignore SIGINT.
for _signal in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, signal.SIG_DFL)


def start(folder, *arguments, env=None, **options):
    """Starts moh and does not wait for it. Whoever calls this ends it."""
    return subprocess.Popen([MOH, *map(str, arguments)], cwd=folder, env=environment(env), stdin=subprocess.DEVNULL,
                            stderr=subprocess.STDOUT, **options)


def program_of(script, folder):
    """A program in the folder, made of a script of Python that needs the standard library alone, so that it starts quickly."""
    path = pathlib.Path(folder, pathlib.Path(script).stem)
    path.write_text(f"#!{sys.executable} -IS\n" + pathlib.Path(script).read_text(encoding="utf-8"), encoding="utf-8")
    path.chmod(0o755)
    return path


class MohTest(unittest.TestCase):
    """A test with a folder of its own, in which moh is run."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moh-cli-", dir=memory_folder()))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.write("text.txt", text_of_words(400))

    def write(self, name, contents):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return path

    def config(self, settings=None, name="tiny.yaml"):
        """Writes TINY with the settings (dotted keys) replaced; returns the file's name."""
        self.write(name, to_yaml(merged(settings or {})) + "\n")
        return name

    def command(self, *arguments, env=None, cwd=None, **options):
        """Runs moh; stderr and stdout come back as one text, in `output`."""
        result = subprocess.run(
            [MOH, *map(str, arguments)], cwd=cwd or self.folder, env=environment(env), timeout=TIMEOUT_SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
        result.output = result.stdout.decode(errors="replace")
        return result

    def moh(self, *arguments, code=DONE, **options):
        """Runs moh, which must end with the exit code; returns what it wrote."""
        result = self.command(*arguments, **options)
        self.assertEqual(result.returncode, code, f"moh {' '.join(map(str, arguments))}\n{result.output}")
        return result.output

    def train(self, settings=None, *arguments, code=DONE, **options):
        """Trains with TINY and these settings."""
        return self.moh("train", self.config(settings), *arguments, code=code, **options)

    def assert_says(self, output, *parts):
        for part in parts:
            self.assertIn(str(part), output)

    def instruction_sets(self):
        """Instruction sets with kernels for float32 that this processor and this build have, the least one first, as MOH_CPU_ISA
        names them."""
        known = ("baseline", "avx2", "avx512")
        return [name for name in known if self.command("--version", env={"MOH_CPU_ISA": name}).returncode == DONE]

    # What a run leaves behind.

    def checkpoints(self, run="run"):
        """The step folders, oldest first."""
        return sorted((self.folder / run / "checkpoints").glob("step_*"))

    def newest(self, run="run"):
        found = self.checkpoints(run)
        self.assertTrue(found, f"{run} has no checkpoint")
        return found[-1]

    def assert_no_litter(self, run="run"):
        """Nothing is there but what belongs to a run: no temporary file, nothing half removed."""
        for path in (self.folder / run).rglob("*"):
            name = path.relative_to(self.folder / run).as_posix()
            self.assertFalse(any(part.startswith(".") for part in path.relative_to(self.folder / run).parts)
                             and name != ".lock", f"left over: {name}")

    def assert_same_state(self, run, other):
        """The newest checkpoints of two runs hold the same bytes: weights, optimizer, position in the data."""
        first, second = self.newest(run), self.newest(other)
        self.assertEqual(first.name, second.name)
        mine, others = state_of(first), state_of(second)
        self.assertEqual(mine.keys(), others.keys())
        for name in mine:  # not as a whole: to show where long strings of bytes differ takes unittest minutes
            self.assertTrue(mine[name] == others[name], f"{name} of {run} and {other} differs at {first.name}")

    def assert_same_history(self, run, other):
        self.assertEqual(history(self.folder / run), history(self.folder / other))

    def assert_each_step_once(self, run, steps, eval_every):
        records = metrics(self.folder / run)
        trained = [record["step"] for record in records if record["kind"] == "train"]
        evaluated = [record["step"] for record in records if record["kind"] == "eval"]
        self.assertEqual(trained, list(range(1, steps + 1)))
        self.assertEqual(evaluated, list(range(eval_every, steps + 1, eval_every)))


class Running:
    """A moh process that cannot run away: it writes its lines into a pipe so small that it blocks soon after the line
    that its reader has reached. What a test does to it then happens in the middle of the run on any machine."""

    PIPE_BYTES = 4096

    def __init__(self, test, *arguments, env=None, pipe_bytes=PIPE_BYTES, **options):
        self.pipe, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, pipe_bytes)
        self.process = start(test.folder, *arguments, env=env, stdout=write_end, **options)
        os.close(write_end)
        self.output = ""
        test.addCleanup(self.close)

    @property
    def pid(self):
        return self.process.pid

    def read_until(self, text):
        """Reads until the text has come, and little more."""
        while text not in self.output:
            # Small pieces: what is read makes room for the process to go on.
            piece = os.read(self.pipe, 32)
            if not piece:
                raise AssertionError(f"moh ended before it wrote '{text}':\n{self.output}")
            self.output += piece.decode(errors="replace")

    def wait_until_blocked(self):
        """Waits until what is left of the pipe has no room for the summary that ends a run."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        filled, before, since = array.array("i", [0]), -1, time.monotonic()
        while filled[0] < self.PIPE_BYTES - 200:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"moh did not fill the pipe:\n{self.output}")
            if filled[0] != before:
                before, since = filled[0], time.monotonic()
            elif filled[0] > 0 and time.monotonic() > since + 2:
                # A page of a pipe is free again when all of it has been read, and a part of this one has been.
                self.output += os.read(self.pipe, self.PIPE_BYTES).decode(errors="replace")
            time.sleep(0.001)
            fcntl.ioctl(self.pipe, termios.FIONREAD, filled)

    def wait_until_stopped(self):
        """Waits until the process has halted (the failure point's action `stop`)."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"moh did not stop:\n{self.output}")
            time.sleep(0.01)

    def wait(self):
        """Reads to the end and returns the exit code; minus the signal that killed it."""
        while piece := os.read(self.pipe, 65536):
            self.output += piece.decode(errors="replace")
        return self.process.wait(TIMEOUT_SECONDS)

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        """SIGKILL; true when the process had not ended by itself."""
        self.send(signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None


def metrics(run):
    """The records of metrics.jsonl. Every line must be one."""
    return [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]


# Fields that say how fast it went, not what was computed.
MEASURED = ("tokens_per_s", "images_per_s", "mfu", "data_wait", "elapsed_s", "unix_time", "peak_memory_bytes", "peak_process_memory_bytes")


def history(run):
    """What the steps of a run computed, in their order: the records without measured fields and events."""
    return [{key: value for key, value in record.items() if key not in MEASURED}
            for record in metrics(run) if record["kind"] != "event"]


def losses(run):
    return [record["loss"] for record in metrics(run) if record["kind"] == "train"]


def state_of(checkpoint):
    """What a run goes on from: tensor files as they are, and the trainer's state but for the seconds it took and the
    files that its data came from."""
    state = {path.name: path.read_bytes() for path in checkpoint.glob("*.safetensors")}
    trainer = json.loads((checkpoint / "trainer.json").read_text())
    trainer.pop("elapsed_seconds")
    trainer.pop("data", None)
    return {**state, "trainer.json": trainer}


def stored_shapes(path):
    """name -> (type, shape) of the tensors of a safetensors file."""
    data = path.read_bytes()
    (header_size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + header_size])
    return {name: (entry["dtype"], entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def read_tensors(path, ending=""):
    """The tensors of a safetensors file whose names end so, which are float32, by name, as flat arrays."""
    data = path.read_bytes()
    (header_size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + header_size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or not name.endswith(ending):
            continue
        assert entry["dtype"] == "F32", f"{name} is {entry['dtype']}"
        begin, end = entry["data_offsets"]
        values = array.array("f")
        values.frombytes(data[8 + header_size + begin:8 + header_size + end])
        tensors[name] = values
    return tensors


def read_dump(path):
    """The metadata of a safetensors file, and its tensors by name: (type, shape, flat array); of bfloat16 the bits."""
    data = path.read_bytes()
    (header_size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + header_size])
    codes = {"F32": "f", "U8": "B", "I32": "i", "I64": "q", "BF16": "H"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = array.array(codes[entry["dtype"]], data[8 + header_size + begin:8 + header_size + end])
            assert len(values) == math.prod(entry["shape"]), name
            tensors[name] = (entry["dtype"], entry["shape"], values)
    return header["__metadata__"], tensors


def main():
    """Runs the tests of a file; all of them skipped is told to ctest."""
    program = unittest.main(module="__main__", exit=False)
    result = program.result
    if result.wasSuccessful() and result.testsRun > 0 and len(result.skipped) == result.testsRun:
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
