#include "train/checkpoint/background_save.h"

#include <utility>

#include "core/error.h"
#include "core/threads.h"

namespace moh {

void BackgroundSave::start(CheckpointContents contents) {
  MOH_CHECK(!under_way(), "wait() comes between two saves");
  saving_ = start_async_or_defer(
      {"checkpoint.asynchronous"}, [this, contents = std::move(contents)] { return store_.save(contents); },
      warn_);
}

std::optional<std::filesystem::path> BackgroundSave::wait() {
  if (!under_way()) return std::nullopt;
  return std::exchange(saving_, {}).get();
}

}  // namespace moh
