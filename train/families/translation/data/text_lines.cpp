#include "train/families/translation/data/text_lines.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"

namespace moh {

std::string one_line(std::string_view text) {
  std::string line;
  bool after_space = false;
  for (const char c : text) {
    const bool is_space = std::string_view(" \t\n\r\v\f").find(c) != std::string_view::npos;
    if (!is_space && after_space && !line.empty()) line += ' ';
    if (!is_space) line += c;
    after_space = is_space;
  }
  return line;
}

TextLines::TextLines(std::string path) : path_(std::move(path)), stream_(open_byte_stream(path_)) {}

bool TextLines::fill() {
  constexpr std::size_t kReadBytes = std::size_t{64} << 10;
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::size_t size = buffer_.size();
  buffer_.resize(size + kReadBytes);
  const std::size_t count = stream_->read(std::span(buffer_).subspan(size));
  buffer_.resize(size + count);
  if (buffer_.find('\0', size) != std::string::npos)
    throw DataError(error_message(path_, "", "text", "a binary file (NUL bytes)"));
  return count > 0;
}

bool TextLines::next(std::string& line) {
  std::size_t end = buffer_.find('\n', begin_);
  while (end == std::string::npos) {
    const std::size_t looked_at = buffer_.size() - begin_;
    if (looked_at > kMaxLineBytes)
      throw DataError(error_message(path_ + ":" + std::to_string(count_ + 1), "",
                                    "a line of at most " + std::to_string(kMaxLineBytes) + " bytes",
                                    "a longer one"));
    if (!fill()) {
      if (buffer_.empty()) return false;
      end = buffer_.size();
      break;
    }
    end = buffer_.find('\n', looked_at);
  }
  ++count_;
  line.assign(buffer_, begin_, end - begin_);
  if (line.ends_with('\r')) line.pop_back();
  begin_ = std::min(end + 1, buffer_.size());
  return true;
}

}  // namespace moh
