#include "train/apps/watch/line_follower.h"

#include <algorithm>
#include <optional>
#include <span>

#include "core/error.h"
#include "train/base/io/input_file.h"

namespace moh::watch {

namespace {

/// Two texts of records differ in their last bytes: each has the time at which it was written.
constexpr std::size_t kTail = 256;

std::optional<InputFile> opened(const std::filesystem::path& path) {
  try {
    return std::optional<InputFile>(std::in_place, path, InputKind::kData);
  } catch (const DataError&) {
    return std::nullopt;  // not there yet, or any more
  }
}

/// The bytes from `offset` on; "" if the file has become shorter meanwhile.
std::string bytes_at(const InputFile& file, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  try {
    file.read(offset, std::as_writable_bytes(std::span(bytes)), "lines");
  } catch (const DataError&) {
    bytes.clear();
  }
  return bytes;
}

}  // namespace

bool LineFollower::advance(std::size_t most, FunctionRef<void()> restart,
                           FunctionRef<void(std::string_view)> line) {
  const std::optional<InputFile> file = opened(path_);
  bytes_ = file ? file->size() : 0;
  const bool same =
      bytes_ >= offset_ && (offset_ == 0 || bytes_at(*file, offset_ - tail_.size(), tail_.size()) == tail_);
  if (!same) {
    restart();
    offset_ = 0;
    tail_.clear();
    passing_ = false;
  }
  if (bytes_ == offset_) return false;
  const std::string read =
      bytes_at(*file, offset_, std::min<std::uint64_t>(std::max(most, kMostLine), bytes_ - offset_));
  std::string_view left = read;
  for (std::size_t end = 0; (end = left.find('\n')) != std::string_view::npos; left.remove_prefix(end + 1)) {
    if (!std::exchange(passing_, false) && end <= kMostLine) line(left.substr(0, end));
  }
  if (passing_ || left.size() >= kMostLine) {
    passing_ = true;
    left = {};
  }
  const std::size_t used = read.size() - left.size();
  offset_ += used;
  tail_ = (tail_ + read.substr(0, used)).substr(std::max(tail_.size() + used, kTail) - kTail);
  return used > 0 && offset_ < bytes_;
}

}  // namespace moh::watch
