"""The program starts quickly, and training begins quickly, without any library of a GPU."""

import os
import pathlib
import re
import subprocess
import time

import support

SETTINGS = {"model.hidden": 128, "model.intermediate": 352, "model.layers": 4, "model.max_positions": 128,
            "data.sequence_length": 128, "train.steps": 1000, "eval.every": 0, "checkpoint.every": 0}
CUDA_LIBRARY = re.compile(r"/lib(cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|cupti|nv|nccl)[\w-]*\.so")

# Half a second, for an optimised build; tests/cli/CMakeLists.txt allows others more.
MAX_SECONDS = float(os.environ["MOH_START_SECONDS"])
ATTEMPTS = 10


def processor_seconds(pid):
    """What the process has used so far, in all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waiting_seconds(pid):
    """How long its threads were ready and had no processor, as others had it."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[1]) for thread in threads) / 1e9


class StartTime(support.MohTest):
    def start(self, number):
        """Seconds until the first step is done: on the clock but for what others took, and of the processor; and the
        libraries in the process."""
        began = time.monotonic()
        run = support.Running(self, "train", self.config(SETTINGS), f"output.dir=run_{number}")
        run.read_until("step 1/1000")
        seconds = time.monotonic() - began - waiting_seconds(run.pid)
        processor = processor_seconds(run.pid)
        maps = pathlib.Path(f"/proc/{run.pid}/maps").read_text()
        self.assertTrue(run.kill())
        print(f"from the command to the end of the first step: {seconds:.2f} s, of the processor {processor:.2f} s", flush=True)
        return seconds, processor, maps

    def test_the_first_step_comes_soon(self):
        # Whatever else slows a machine down now and then, one start of ten shows what the program takes.
        self.assertTrue(any(max(self.start(number)[:2]) < MAX_SECONDS for number in range(ATTEMPTS)),
                        f"none of {ATTEMPTS} starts took less than {MAX_SECONDS} s")

    def test_help_comes_at_once(self):
        """Every command begins with what it does: loading libraries, static data, the options of all commands."""
        def seconds():
            with subprocess.Popen([support.MOH, "--help"], stdout=subprocess.DEVNULL) as process:
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            return used.ru_utime + used.ru_stime

        fastest = min(seconds() for _ in range(ATTEMPTS))
        print(f"moh --help: {1e3 * fastest:.1f} ms of the processor", flush=True)
        self.assertLess(fastest, MAX_SECONDS / 50)

    def test_it_needs_no_library_of_a_gpu(self):
        maps = self.start(0)[2]
        self.assertRegex(maps, r"/libyaml-cpp\.so")  # the listing is one: this is there for sure
        self.assertEqual([line for line in maps.splitlines() if CUDA_LIBRARY.search(line)], [])


if __name__ == "__main__":
    support.main()
