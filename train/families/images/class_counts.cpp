#include "train/families/images/class_counts.h"

#include <algorithm>
#include <span>
#include <string>

#include "core/error.h"
#include "ops/loss/cross_entropy.h"

namespace moh {

namespace {

constexpr std::int64_t kEntry = 3;  // label, predicted, pictures
/// In place of a predicted class, of an entry that counts among the five.
constexpr std::int64_t kAmongFive = -1;

/// The rows [count, kEntry] of all processes, one after the other; processes may have different counts.
std::vector<std::int64_t> entries_of_all(std::vector<std::int64_t> own, Communicator& processes) {
  const std::int64_t most = processes.max(std::ssize(own));
  own.resize(static_cast<std::size_t>(most));  // with pairs of no pictures
  std::vector<std::int64_t> all(static_cast<std::size_t>(most * processes.size()));
  if (most == 0) return all;
  const Tensor rows = empty({processes.size(), most}, DType::kInt64);
  processes.all_gather(tensor_of<std::int64_t>({most}, own), rows);
  std::ranges::copy(rows.span<std::int64_t>(), all.begin());
  return all;
}

}  // namespace

std::int64_t rank_of(std::span<const float> logits, std::int64_t label) {
  const auto own = static_cast<std::size_t>(label);
  const float at = logits[own];
  std::int64_t before = 0;
  for (std::size_t j = 0; j < own; ++j) before += !(logits[j] < at);
  for (std::size_t j = own + 1; j < logits.size(); ++j) before += !(logits[j] <= at);
  return before;
}

void ClassCounts::count(std::int64_t label, std::int64_t predicted, std::int64_t pictures) {
  confusion_[{label, predicted}] += pictures;
  total_ += pictures;
  if (label == predicted) first_ += pictures;
}

void ClassCounts::add(const Tensor& logits, const Tensor& labels) {
  MOH_CHECK(logits.dim(1) == classes_, "a logit for each class");
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const std::int64_t label = labels.span<std::int64_t>()[static_cast<std::size_t>(i)];
    if (label == kIgnoredTarget) continue;
    if (label < 0 || label >= classes_)
      throw ValueError(error_message("evaluation", "label", "0 to " + std::to_string(classes_ - 1),
                                     std::to_string(label)));
    const Tensor row = logits.select(i);
    const std::span<const float> values = row.span<float>();
    const std::int64_t rank = rank_of(values, label);
    if (rank < kFew) ++among_five_[label];
    count(label, rank == 0 ? label : std::ranges::max_element(values) - values.begin(), 1);
  }
}

void ClassCounts::add_of_all(Communicator& processes) {
  if (processes.alone()) return;
  std::vector<std::int64_t> own;
  for (const auto& [pair, pictures] : confusion_) own.insert(own.end(), {pair.first, pair.second, pictures});
  for (const auto& [label, pictures] : among_five_) own.insert(own.end(), {label, kAmongFive, pictures});
  const std::vector<std::int64_t> all = entries_of_all(std::move(own), processes);
  *this = ClassCounts(classes_);
  for (std::size_t i = 0; i < all.size(); i += kEntry) {
    const std::int64_t label = all[i], predicted = all[i + 1], pictures = all[i + 2];
    if (predicted == kAmongFive)
      among_five_[label] += pictures;
    else if (pictures > 0)
      count(label, predicted, pictures);
  }
}

std::int64_t ClassCounts::of_class(std::int64_t label) const {
  std::int64_t sum = 0;
  for (auto at = confusion_.lower_bound({label, 0}); at != confusion_.end() && at->first.first == label; ++at)
    sum += at->second;
  return sum;
}

std::int64_t ClassCounts::among_five(std::int64_t label) const {
  const auto found = among_five_.find(label);
  return found == among_five_.end() ? 0 : found->second;
}

std::int64_t ClassCounts::confused(std::int64_t label, std::int64_t predicted) const {
  const auto found = confusion_.find({label, predicted});
  return found == confusion_.end() ? 0 : found->second;
}

std::int64_t ClassCounts::most_confused(std::int64_t label) const {
  std::int64_t found = -1, most = 0;
  for (auto at = confusion_.lower_bound({label, 0}); at != confusion_.end() && at->first.first == label;
       ++at) {
    if (at->first.second == label || at->second <= most) continue;
    most = at->second;
    found = at->first.second;
  }
  return found;
}

double ClassCounts::top1() const {
  return static_cast<double>(first_) / static_cast<double>(total_);
}

double ClassCounts::top5() const {
  std::int64_t sum = 0;
  for (const auto& [label, pictures] : among_five_) sum += pictures;
  return static_cast<double>(sum) / static_cast<double>(total_);
}

}  // namespace moh
