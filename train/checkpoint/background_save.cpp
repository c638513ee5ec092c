#include "train/checkpoint/background_save.h"

#include <utility>

#include "core/error.h"

namespace moh {

void BackgroundSave::start(CheckpointContents contents) {
  MOH_CHECK(!under_way(), "wait() comes between two saves");
  saving_ = std::async(std::launch::async,
                       [this, contents = std::move(contents)] { return store_.save(contents); });
}

std::optional<std::filesystem::path> BackgroundSave::wait() {
  if (!under_way()) return std::nullopt;
  return std::exchange(saving_, {}).get();
}

}  // namespace moh
