"""Training begins quickly, and without any library of a GPU."""

import os
import pathlib
import re
import time

import support

CUDA_LIBRARY = re.compile(r"/lib(cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|cupti|nv|nccl)[\w-]*\.so")

# The aim is one second on the clock; a sanitizer build must pass, too. The processor's time does not depend on what else
# the machine does, the clock's does, and counts on an idle machine only.
MAX_PROCESSOR_SECONDS = 2.0
MAX_SECONDS = 5.0


def processor_seconds(pid):
    """What the process has used so far, in all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class StartTime(support.MohTest):
    def test_the_first_step_comes_soon_and_without_cuda(self):
        config = self.config({"model.hidden": 128, "model.intermediate": 352, "model.layers": 4,
                              "model.max_positions": 128, "data.sequence_length": 128, "train.steps": 1000,
                              "eval.every": 0, "checkpoint.every": 0})
        seconds, processor = [], []
        for attempt in range(3):
            began = time.monotonic()
            run = support.Running(self, "train", config, f"output.dir=run_{attempt}")
            run.read_until("step 1/1000")
            seconds.append(time.monotonic() - began)
            processor.append(processor_seconds(run.pid))
            maps = pathlib.Path(f"/proc/{run.pid}/maps").read_text()
            self.assertTrue(run.kill())
        print(f"from the command to the end of the first step: {min(seconds):.2f} s, of the processor "
              f"{min(processor):.2f} s (best of {len(seconds)})", flush=True)
        self.assertLess(min(processor), MAX_PROCESSOR_SECONDS)
        if os.getloadavg()[0] < (os.cpu_count() or 1):
            self.assertLess(min(seconds), MAX_SECONDS)
        # The listing is one: these are there for sure.
        self.assertRegex(maps, r"/libyaml-cpp\.so")
        self.assertEqual([line for line in maps.splitlines() if CUDA_LIBRARY.search(line)], [])


if __name__ == "__main__":
    support.main()
