#include "train/tasks/images/data/broken_pictures.h"

namespace moh {

namespace {

constexpr std::string_view kNames[] = {"stop", "skip"};
constexpr std::size_t kNamed = 5;

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
