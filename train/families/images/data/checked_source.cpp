#include "train/families/images/data/checked_source.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace moh {

void check_source(const LabelledSource& source, std::int64_t count) {
  const std::int64_t size = source.size(), classes = source.num_classes();
  if (size < 1 || classes < 1)
    throw DataError(error_message("data", "pictures and classes", "at least one of each",
                                  std::to_string(size) + " and " + std::to_string(classes)));
  for (std::int64_t i = 0; i < std::min(count, size); ++i) {
    const std::int64_t label = source.label(i);
    if (label >= 0 && label < classes) continue;
    throw DataError(
        error_message(source.name(i), "label", "0 to " + std::to_string(classes - 1), std::to_string(label)));
  }
}

}  // namespace moh
