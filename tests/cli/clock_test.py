"""A wall clock that jumps changes neither rates nor deadlines, which a monotonic clock measures."""

import os
import shutil
import subprocess
import sys

import support

# time() and its kin jump by a day, back and forth, at each call; CLOCK_MONOTONIC goes on.
JUMPS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <sys/time.h>
static long calls = 0;
static long jump(void) { return (__sync_fetch_and_add(&calls, 1) % 2) * -86400; }
int clock_gettime(clockid_t id, struct timespec* at) {
  static int (*real)(clockid_t, struct timespec*) = 0;
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(id, at);
  if (id == CLOCK_REALTIME) at->tv_sec += jump();
  return result;
}
"""


class Clock(support.MohTest):
    def test_a_clock_that_jumps_by_a_day(self):
        (self.folder / "jumps.c").write_text(JUMPS)
        library = self.folder / "jumps.so"
        built = subprocess.run(["cc", "-shared", "-fPIC", "-o", library, self.folder / "jumps.c", "-ldl"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(built.returncode, 0, built.stdout)
        output = self.train({"train.steps": 10, "train.stop_after_seconds": 3600},
                            env={"LD_PRELOAD": str(library)})
        self.assertIn("step 10/10", output)
        records = support.metrics(self.folder / "run")
        times = [record["unix_time"] for record in records]
        self.assertGreater(max(times) - min(times), 80000, "the clock did not jump")
        for record in records:
            if record["kind"] != "train":
                continue
            self.assertTrue(0 < record["elapsed_s"] < 3600)
            self.assertGreater(record["tokens_per_s"], 0)
            self.assertTrue(0 <= record["data_wait"] <= 1)
        self.train({"output.dir": "plain", "train.steps": 10})
        self.assertEqual(support.losses(self.folder / "run"), support.losses(self.folder / "plain"))


if __name__ == "__main__":
    if shutil.which("cc") is None:
        print("skipped: no C compiler")
        sys.exit(support.SKIPPED)
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        sys.exit(support.SKIPPED)
    support.main()
