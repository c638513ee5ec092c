#include "train/families/images/data/class_list.h"

#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

ClassList::ClassList(std::vector<std::string> names) : names_(std::move(names)) {
  for (const std::string& name : names_) {
    if (!labels_.emplace(name, static_cast<std::int64_t>(labels_.size())).second)
      throw DataError(error_message("data", "names of classes", "each once", "twice " + printable(name)));
  }
}

std::int64_t ClassList::label_of(std::string_view name, std::string_view where) const {
  const auto found = labels_.find(name);
  if (found != labels_.end()) return found->second;
  throw DataError(error_message(
      where, "class", "one of the " + std::to_string(size()) + " of the training data", printable(name)));
}

}  // namespace moh
