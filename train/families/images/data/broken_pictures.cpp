#include "train/families/images/data/broken_pictures.h"

#include <algorithm>

#include "core/error.h"
#include "train/families/images/data/changed_data.h"

namespace moh {

namespace {

constexpr std::string_view kNames[] = {"stop", "skip"};
constexpr std::size_t kNamed = 5;

/// So many broken pictures in a row are no accident.
constexpr std::int64_t kMaxBrokenInARow = 64;

}  // namespace

std::span<const std::string_view> names_of(OnError) {
  return kNames;
}

void BrokenPictures::add(std::int64_t index, const std::string& message) {
  const std::lock_guard lock(mutex_);
  messages_.emplace(index, message);
}

std::int64_t BrokenPictures::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(messages_.size());
}

std::string BrokenPictures::describe() const {
  const std::lock_guard lock(mutex_);
  if (messages_.empty()) return "";
  std::string text =
      std::to_string(messages_.size()) + (messages_.size() == 1 ? " broken picture" : " broken pictures");
  std::size_t named = 0;
  for (const auto& [index, message] : messages_) {
    if (named == kNamed) return text + "; ...";
    text.append(named++ == 0 ? ": " : "; ").append(message);
  }
  return text;
}

std::int64_t first_sound(std::int64_t index, std::int64_t size, OnError on_error, BrokenPictures* broken,
                         FunctionRef<void(std::int64_t index)> make) {
  for (std::int64_t tries = 1;; ++tries) {
    try {
      make(index);
      return index;
    } catch (const ChangedDataError&) {
      throw;
    } catch (const DataError& error) {
      if (on_error == OnError::kStop || tries == std::min(kMaxBrokenInARow, size)) throw;
      broken->add(index, error.what());
      index = (index + 1) % size;
    }
  }
}

std::vector<std::pair<std::string, std::string>> broken_remarks(const BrokenPictures& in_training,
                                                                const BrokenPictures& in_validation) {
  std::vector<std::pair<std::string, std::string>> remarks;
  for (const auto& [name, broken] :
       {std::pair{"training data", &in_training}, {"validation data", &in_validation}}) {
    if (broken->count() > 0) remarks.emplace_back(name, broken->describe());
  }
  return remarks;
}

}  // namespace moh
