#include "train/base/log/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "core/device_clock.h"
#include "train/base/log/format.h"

namespace moh {

namespace {

constexpr int kShortestBar = 8;
constexpr int kLongestBar = 40;

double share_done(std::int64_t step, std::int64_t total) {
  return total > 0 ? std::clamp(static_cast<double>(step) / static_cast<double>(total), 0.0, 1.0) : 1.0;
}

std::string percent(double share) {
  return format_fixed(100.0 * share, 0) + "%";
}

/// `width` columns, of which the share `share` is filled; with Unicode in steps of an eighth of a column.
std::string bar(double share, int width, const TerminalTraits& traits) {
  static constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(share * width * 8));
  const int full = eighths / 8;
  std::string text;
  int columns = full;
  if (traits.unicode) {
    for (int i = 0; i < full; ++i) text += "█";
    const std::string_view part = kEighths[static_cast<std::size_t>(eighths % 8)];
    text += part;
    columns += part.empty() ? 0 : 1;
  } else {
    text.assign(static_cast<std::size_t>(full), '#');
  }
  const std::string rest(static_cast<std::size_t>(width - columns), traits.unicode ? ' ' : '.');
  if (traits.color) text = "\x1b[36m" + text + "\x1b[0m";
  return traits.unicode ? "▕" + text + rest + "▏" : "[" + text + rest + "]";
}

/// A field to the right of the bar. In a narrow terminal fields of higher rank are left out first.
struct Field {
  std::string text;
  int rank;
};

/// In the order in which they are shown.
std::vector<Field> fields_of(const StepProgress& progress, double remaining_seconds) {
  std::vector<Field> fields = {
      {"loss " + format_fixed(progress.loss, 4), 0},
      {"lr " + format_scientific(progress.learning_rate), 3},
      {format_count(progress.items_per_s) + " " + std::string(progress.rate_unit), 2}};
  for (const auto& [label, share] : progress.shares)
    fields.push_back({std::string(label) + " " + percent(share), 4});
  fields.push_back({"ETA " + format_duration(remaining_seconds), 1});
  return fields;
}

std::string step_text(std::int64_t step, std::int64_t total) {
  return std::to_string(step) + "/" + std::to_string(total);
}

}  // namespace

double monotonic_seconds() {
  return steady_seconds();
}

StatusLine::StatusLine(Console& console, Clock clock)
    : console_(console),
      clock_(std::move(clock)),
      pause_(console.traits().is_terminal ? 0.1 : 10.0),
      start_(clock_()),
      shown_(console.traits().is_terminal ? start_ - pause_ : start_) {}

void StatusLine::update(FunctionRef<std::string()> text, bool last) {
  const double now = clock_();
  if (now - shown_ < pause_ && !last) return;
  shown_ = now;
  if (console_.traits().is_terminal)
    console_.set_status(text());
  else
    console_.print(text());
}

ByteProgress::ByteProgress(std::string doing, std::uint64_t total_bytes)
    : console_(STDERR_FILENO), doing_(std::move(doing)), total_(total_bytes), line_(console_) {}

void ByteProgress::add(std::uint64_t bytes) {
  done_ = std::min(done_ + bytes, total_);  // callers add headers, too, which total_ lacks
  line_.update([&] {
    return doing_ + ": " + format_bytes(static_cast<std::int64_t>(done_)) + " of " +
           format_bytes(static_cast<std::int64_t>(total_)) + " (" +
           std::to_string(total_ == 0 ? 100 : done_ * 100 / total_) + "%)" + time_left();
  });
}

std::string ByteProgress::time_left() const {
  if (done_ == 0 || done_ == total_) return "";
  return ", " +
         format_duration(line_.elapsed() * static_cast<double>(total_ - done_) / static_cast<double>(done_)) +
         " left";
}

std::string describe_progress(std::string_view doing, std::int64_t done, std::int64_t total,
                              std::string_view items, double seconds, std::int64_t before) {
  const double left =
      done == before ? -1 : seconds * static_cast<double>(total - done) / static_cast<double>(done - before);
  return std::string(doing) + ": " + format_count(static_cast<double>(done)) + " of " +
         format_count(static_cast<double>(total)) + " " + std::string(items) + ", " + format_duration(left) +
         " left";
}

std::string progress_bar(const StepProgress& progress, std::int64_t total_steps, double remaining_seconds,
                         int width, const TerminalTraits& traits) {
  const double share = share_done(progress.step, total_steps);
  const std::string head = step_text(progress.step, total_steps);
  // The last column stays free: writing to it makes some terminals wrap.
  int room = width - 1 - static_cast<int>(head.size());
  if (room < 0) return percent(share).substr(0, static_cast<std::size_t>(std::max(width - 1, 0)));

  std::vector<Field> fields = fields_of(progress, remaining_seconds);
  int needed = 0;
  for (const Field& field : fields) needed += static_cast<int>(field.text.size()) + 2;
  while (needed > room) {
    const auto least = std::max_element(fields.begin(), fields.end(),
                                        [](const Field& a, const Field& b) { return a.rank < b.rank; });
    needed -= static_cast<int>(least->text.size()) + 2;
    fields.erase(least);
  }
  room -= needed;

  std::string text = head;
  constexpr int kFrame = 3;  // a space and the two ends
  if (room >= kShortestBar + kFrame) text += " " + bar(share, std::min(room - kFrame, kLongestBar), traits);
  for (const Field& field : fields) text += "  " + field.text;
  return text;
}

std::string progress_line(const StepProgress& progress, std::int64_t total_steps, double remaining_seconds) {
  std::string text = "step " + step_text(progress.step, total_steps);
  for (const Field& field : fields_of(progress, remaining_seconds)) text += "  " + field.text;
  return text;
}

ProgressReporter::ProgressReporter(std::shared_ptr<Console> console, std::int64_t total_steps,
                                   std::int64_t first_step, StatusLine::Clock clock)
    : console_(std::move(console)),
      total_steps_(total_steps),
      first_step_(first_step),
      line_(*console_, std::move(clock)) {}

double ProgressReporter::remaining_seconds(std::int64_t step) const {
  const std::int64_t done = step - first_step_;
  if (done <= 0) return -1.0;
  const double each = seconds_per_step(done);
  const double of_steps = each * static_cast<double>(std::max<std::int64_t>(total_steps_ - step, 0));
  if (!evaluations_after_) return of_steps;
  const double of_evaluation =
      evaluations_ > 0 ? evaluation_seconds_ / static_cast<double>(evaluations_) : each * steps_each_;
  return of_steps + of_evaluation * static_cast<double>(evaluations_after_(step));
}

/// The first step makes memory and finds the fastest kernels, and takes longer than others.
double ProgressReporter::seconds_per_step(std::int64_t done) const {
  const double seconds = line_.elapsed() - evaluation_seconds_;
  const bool has_others = first_step_seconds_ > 0 && done > 1;
  return has_others ? (seconds - first_step_seconds_) / static_cast<double>(done - 1)
                    : seconds / static_cast<double>(done);
}

void ProgressReporter::note_first_step(std::int64_t step) {
  if (step == first_step_ + 1 && first_step_seconds_ == 0)
    first_step_seconds_ = line_.elapsed() - evaluation_seconds_;
}

void ProgressReporter::expect_evaluations(std::function<std::int64_t(std::int64_t)> count_after,
                                          double steps_each) {
  evaluations_after_ = std::move(count_after);
  steps_each_ = steps_each;
}

void ProgressReporter::add_evaluation(double seconds) {
  ++evaluations_;
  evaluation_seconds_ += seconds;
}

void ProgressReporter::update(const StepProgress& progress) {
  note_first_step(progress.step);
  if (!console_->traits().is_terminal) return;
  const auto bar = [&] {
    return progress_bar(progress, total_steps_, remaining_seconds(progress.step), console_->width(),
                        console_->traits());
  };
  line_.update(bar, progress.step >= total_steps_);
}

void ProgressReporter::log(const StepProgress& progress) {
  console_->print(progress_line(progress, total_steps_, remaining_seconds(progress.step)));
}

std::string format_summary(const RunSummary& summary) {
  std::vector<std::pair<std::string, std::string>> rows;
  const auto add_number = [&](const std::string& name, const std::optional<double>& value) {
    if (value) rows.emplace_back(name, format_fixed(*value, 4));
  };
  rows.emplace_back("training", summary.outcome + " at step " + std::to_string(summary.step));
  add_number("train loss", summary.train_loss);
  add_number("validation " + summary.score_name, summary.validation_score);
  add_number("best validation " + summary.score_name, summary.best_validation_score);
  for (const auto& [name, share] : summary.shares) rows.emplace_back(name, percent(share));
  rows.emplace_back("time", format_duration(summary.elapsed_seconds));
  if (summary.elapsed_seconds > 0 && summary.items > 0) {
    rows.emplace_back(summary.items_name,
                      format_count(static_cast<double>(summary.items)) + " (" +
                          format_count(static_cast<double>(summary.items) / summary.elapsed_seconds) + "/s)");
  }
  std::string memory;
  if (summary.peak_memory_bytes) memory = format_bytes(*summary.peak_memory_bytes) + " of tensors";
  if (summary.peak_process_memory_bytes)
    memory +=
        (memory.empty() ? "" : ", ") + format_bytes(*summary.peak_process_memory_bytes) + " of the process";
  if (!memory.empty()) rows.emplace_back("peak memory", memory);
  rows.insert(rows.end(), summary.remarks.begin(), summary.remarks.end());
  if (!summary.output_dir.empty()) rows.emplace_back("output", summary.output_dir);

  std::size_t widest = 0;
  for (const auto& [name, value] : rows) widest = std::max(widest, name.size());
  std::string text;
  for (const auto& [name, value] : rows) {
    text.append(name).append(widest - name.size() + 2, ' ').append(value).append("\n");
  }
  return text;
}

}  // namespace moh
