"""Training begins quickly, and without any library of a GPU."""

import pathlib
import re
import time

import support

CUDA_LIBRARY = re.compile(r"/lib(cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|cupti|nv|nccl)[\w-]*\.so")

# The aim is one second. A sanitizer build on a busy machine must pass, too.
MAX_SECONDS = 5.0


class StartTime(support.MohTest):
    def test_the_first_step_comes_soon_and_without_cuda(self):
        config = self.config({"model.hidden": 128, "model.intermediate": 352, "model.layers": 4,
                              "model.max_positions": 128, "data.sequence_length": 128, "train.steps": 1000,
                              "eval.every": 0, "checkpoint.every": 0})
        seconds = []
        for attempt in range(3):
            began = time.monotonic()
            run = support.Running(self, "train", config, f"output.dir=run_{attempt}")
            run.read_until("step 1/1000")
            seconds.append(time.monotonic() - began)
            maps = pathlib.Path(f"/proc/{run.pid}/maps").read_text()
            self.assertTrue(run.kill())
        print(f"from the command to the end of the first step: {min(seconds):.2f} s (best of {len(seconds)})",
              flush=True)
        self.assertLess(min(seconds), MAX_SECONDS)
        # The listing is one: these are there for sure.
        self.assertRegex(maps, r"/libyaml-cpp\.so")
        self.assertEqual([line for line in maps.splitlines() if CUDA_LIBRARY.search(line)], [])


if __name__ == "__main__":
    support.main()
