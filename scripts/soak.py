"""Kills a training by SIGKILL at random moments, in one process and in two, and resumes it each time, until it is done; in
two processes each time with a stage of ZeRO by chance. Whatever happened, every checkpoint that can be seen has to be
readable, and the weights at the end have to be, byte for byte, those of a run that was never killed. Prints a table, and
ends with exit status 1 if they are not.
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
seed: 11
threads: 1
output: {dir: run}
model:
  layers: 2
  hidden: 32
  intermediate: 48
  heads: 4
  max_positions: 32
  dropout: 0.1
  moh: {router: learned, num_shared: 1, top_k: 1}
data: {train: text.txt, sequence_length: 32}
train: {steps: STEPS, batch_size: 4, accumulate: 2}
optim: {learning_rate: 0.003, clip_grad_norm: 0}  # whose norm is rounded differently by stages
schedule: {warmup_steps: 5}
ema: {decay: 0.9}
log: {every: 1}
eval: {every: 20}
checkpoint: {every: 2, keep_last: 2, keep_best: true}
sample: {tokens: 0}
"""
WORDS = "the head token mixture of and router keeps few a gate loss of Heads that each Token needs".split()
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
KILLED_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)


def command(moh, ranks, *arguments):
    launcher = [] if ranks == 1 else ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    return [*launcher, moh, *arguments]


def processes_of(launcher):
    """The ids of the processes that mpirun has started."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == launcher:
                found.append(int(folder.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


class Soak:
    def __init__(self, moh, folder, ranks, draw):
        self.moh, self.folder, self.ranks, self.draw = moh, folder, ranks, draw
        self.kills = self.in_saves = self.runs = self.checkpoints = 0
        self.unreadable, self.different = [], []

    @property
    def stages(self):
        return (0,) if self.ranks == 1 else (0, 1, 2, 3)

    def start(self, run, stage=None):
        zero = self.draw.choice(self.stages) if stage is None else stage
        log = (self.folder / f"{run}.log").open("ab")
        return subprocess.Popen(command(self.moh, self.ranks, "train", "soak.yaml", "--resume", f"output.dir={run}",
                                        f"comm.zero={zero}"),
                                cwd=self.folder, env={**os.environ, **MPI}, stdout=log, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, start_new_session=True)

    def finish(self, run, stage=None):
        process = self.start(run, stage)
        if process.wait() != 0:
            raise SystemExit(f"soak: {self.ranks} processes: {run} ended with {process.returncode}:\n"
                             + (self.folder / f"{run}.log").read_text()[-2000:])

    def kill(self, process):
        """One of the processes by chance; mpirun ends the others, as a batch system does."""
        victims = [process.pid] if self.ranks == 1 else processes_of(process.pid)
        if not victims:
            victims = [process.pid]
        try:
            os.kill(self.draw.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:  # mpirun may not end if a process dies while it connects
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        for pid in victims:  # of a launcher that was killed
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return code != 0

    def check(self, run):
        folder = self.folder / run / "checkpoints"
        if not folder.exists():
            return
        self.in_saves += any(path.name.startswith((".tmp-", ".old-")) for path in folder.iterdir())
        for step in sorted(folder.glob("step_*")):
            self.checkpoints += 1
            result = subprocess.run([self.moh, "eval", "--checkpoint", str(step)], cwd=self.folder, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ)
            if result.returncode != 0:
                self.unreadable.append((run, step.name, result.stdout))

    def weights(self, run):
        step = sorted((self.folder / run / "checkpoints").glob("step_*"))[-1]
        return {path.name: path.read_bytes() for path in step.glob("*.safetensors")}

    def run(self, kills):
        began = time.monotonic()
        for stage in self.stages:
            self.finish(f"whole_{self.ranks}_{stage}", stage)
        duration = (time.monotonic() - began) / len(self.stages)
        # The state of the optimiser lies in as many files as the stage that has written the last checkpoint divides it.
        expected = [self.weights(f"whole_{self.ranks}_{stage}") for stage in self.stages]
        if len({files["model.safetensors"] for files in expected}) > 1:
            raise SystemExit(f"soak: {self.ranks} processes: the stages of ZeRO have ended with different weights")
        while self.kills < kills:
            run = f"killed_{self.ranks}_{self.runs}"
            self.run_with_kills(run, kills, duration)
            self.runs += 1
            if self.weights(run) not in expected:
                self.different.append(run)
            shutil.rmtree(self.folder / run)

    def run_with_kills(self, run, kills, duration):
        while True:
            process = self.start(run)
            try:
                process.wait(self.draw.uniform(0, 0.6 * duration))
            except subprocess.TimeoutExpired:
                pass
            if process.poll() is not None or not self.kill(process):
                if process.returncode not in (0, *KILLED_CODES):
                    raise SystemExit(f"soak: {run} ended with {process.returncode}:\n"
                                     + (self.folder / f"{run}.log").read_text()[-2000:])
                return
            self.kills += 1
            self.check(run)
            if self.kills >= kills:
                return self.finish(run)

    def row(self):
        return (f"| {self.ranks} | {self.kills} | {self.in_saves} | {self.runs} | {self.checkpoints} | "
                f"{len(self.unreadable)} | {len(self.different)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moh", default="build/release/moh", help="the moh program")
    parser.add_argument("--kills", type=int, default=200, help="in all (default 200)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="numbers of processes (default 1 2)")
    parser.add_argument("--steps", type=int, default=60, help="of each run (default 60)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    moh, draw, failed = str(pathlib.Path(arguments.moh).resolve()), random.Random(arguments.seed), False
    print("| processes | kills | of these while a checkpoint was written | runs that ended | checkpoints read | unreadable | "
          "runs with other weights than the one never killed |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for ranks in arguments.ranks:
        with tempfile.TemporaryDirectory(prefix="moh-soak-") as folder:
            folder = pathlib.Path(folder)
            (folder / "soak.yaml").write_text(CONFIG.replace("STEPS", str(arguments.steps)))
            (folder / "text.txt").write_text(" ".join(draw.choice(WORDS) for _ in range(400)) + "\n")
            soak = Soak(moh, folder, ranks, draw)
            soak.run(arguments.kills // len(arguments.ranks))
            print(soak.row(), flush=True)
            for run, step, output in soak.unreadable:
                print(f"unreadable: {run} {step}: {output}", file=sys.stderr)
            failed |= bool(soak.unreadable or soak.different)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
