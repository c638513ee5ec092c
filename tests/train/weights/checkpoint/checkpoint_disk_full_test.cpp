#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/child_process.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Names = std::vector<std::string>;

/// Mounts a small file system of memory on `folder`, for this process alone; false where that is not allowed.
bool mount_small_disk(const fs::path& folder) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return ::mount("moh-test", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
}

CheckpointContents checkpoint_of_bytes(std::int64_t step, std::int64_t bytes) {
  CheckpointContents contents = sample_checkpoint(step);
  contents.model.push_back({"big", empty({bytes}, DType::kUInt8)});
  std::ranges::fill(contents.model.back().tensor.span<std::uint8_t>(), static_cast<std::uint8_t>(step));
  return contents;
}

}  // namespace

TEST_CASE("checkpoint: disk full: a full disk leaves the checkpoint before, and says what is missing") {
  const TemporaryFolder run;
  const CheckpointContents small = checkpoint_of_bytes(1, 400'000);
  const CheckpointContents large = checkpoint_of_bytes(2, 700'000);
  const ChildResult child = run_in_child([&]() -> std::string {
    if (!mount_small_disk(run.path())) return "no mount";
    StoreUnderTest test(run.path());
    test.store.save(small);
    const std::string message = message_of<StorageError>([&] { test.store.save(large); });
    if (names_in(test.store.folder()) != Names{"step_00000001"}) return "litter";
    if (!same_checkpoint(*test.store.open_newest(false), small)) return "lost";
    test.store.save(checkpoint_of_bytes(3, 400'000));
    return message;
  });
  if (child.output == "no mount") MOH_SKIP("no right to mount a small file system");
  REQUIRE(child.exit_code == 0);
  CHECK_THAT(
      child.output,
      Contains("/model.safetensors: write: expected room for ") &&
          Contains(" bytes free (No space left on device); make room on this disk or choose another one"));
}

TEST_CASE("checkpoint: disk full: a file size limit leaves the checkpoint before") {
  const TemporaryFolder run;
  StoreUnderTest(run.path()).store.save(sample_checkpoint(1));
  const CheckpointContents large = checkpoint_of_bytes(2, 700'000);
  const ChildResult child = run_in_child([&] {
    const rlimit limit{.rlim_cur = 500'000, .rlim_max = 500'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    StoreUnderTest(run.path()).store.save(large);
    return std::string("saved");
  });
  CHECK(child.exit_code == 1);
  CHECK_THAT(child.output,
             Contains("model.safetensors: write: expected room for 2") && Contains("File too large"));
  CHECK(names_in(run / "checkpoints") == Names{"step_00000001"});
  CHECK(same_checkpoint(read_checkpoint(resolve_checkpoint(run.path())), sample_checkpoint(1)));
}

}  // namespace moh
