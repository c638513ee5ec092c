#include "train/families/language/data/document_reader.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "core/error.h"
#include "train/families/language/data/faulty_line.h"
#include "train/tokenizers/cut_text.h"

namespace moh {

namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxPartBytes = std::size_t{64} << 20;

/// The path without the ending of its compression.
std::filesystem::path uncompressed_name(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string ending = whole.extension().string();
  return ending == ".gz" || ending == ".zst" ? whole.parent_path() / whole.stem() : whole;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

bool is_json_lines(const std::string& path) {
  return format_by_name(uncompressed_name(path)) == "JSON Lines";
}

std::string_view unreadable_format(const std::string& path) {
  const std::string_view format = format_by_name(uncompressed_name(path));
  return format == "JSON Lines" ? std::string_view() : format;
}

DocumentReader::DocumentReader(const InputPath& input, const Tokenizer& tokenizer)
    : input_(input),
      tokenizer_(tokenizer),
      stream_(open_byte_stream(input.path)),
      is_lines_(is_json_lines(input.path)) {}

void DocumentReader::fill(std::size_t wanted) {
  if (begin_ > 0) buffer_.erase(0, std::exchange(begin_, 0));
  while (!ended_ && buffer_.size() < wanted) {
    const std::size_t size = buffer_.size();
    buffer_.resize(size + kReadBytes);
    const std::size_t count = stream_->read(std::span(buffer_).subspan(size));
    buffer_.resize(size + count);
    ended_ = count == 0;
    if (buffer_.find('\0', size) != std::string::npos)
      throw Unreadable{"binary", "a binary file (NUL bytes)"};
  }
}

bool DocumentReader::next(DocumentPart& part) {
  return is_lines_ ? next_line(part) : next_text(part);
}

std::size_t DocumentReader::cut_of_buffer() const {
  try {
    return find_cut(tokenizer_, buffer_);
  } catch (const DataError& error) {
    const std::int64_t line = line_ + 1 + faulty_line(buffer_, tokenizer_);
    throw DataError(input_.path + ":" + std::to_string(line) + ": " + error.what());
  }
}

bool DocumentReader::next_text(DocumentPart& part) {
  for (std::size_t wanted = kPartBytes;; wanted *= 2) {
    fill(wanted);
    if (!begun_ && buffer_.empty()) throw Unreadable{"empty", "an empty file"};
    if (buffer_.empty()) return false;
    if (wanted > kMaxPartBytes) {
      throw DataError(
          error_message(input_.path, "", "a text that can be cut into parts for its tokenizer",
                        std::to_string(kMaxPartBytes) + " bytes without a space or the end of a line"));
    }
    const std::size_t cut = ended_ ? buffer_.size() : cut_of_buffer();
    if (cut == 0) continue;
    part = {buffer_.substr(0, cut), !std::exchange(begun_, true), 0, line_ + 1};
    line_ += std::ranges::count(part.text, '\n');
    begin_ = cut;
    return true;
  }
}

bool DocumentReader::next_line(DocumentPart& part) {
  while (true) {
    std::size_t end = buffer_.find('\n', begin_);
    for (std::size_t wanted = kPartBytes; end == std::string::npos && !ended_; wanted *= 2) {
      fill(wanted);
      end = buffer_.find('\n', begin_);
      if (end == std::string::npos && buffer_.size() > kMaxLineBytes) {
        throw DataError(error_message(input_.path + ":" + std::to_string(line_ + 1), "",
                                      "a line of at most " + std::to_string(kMaxLineBytes) + " bytes",
                                      "a longer one"));
      }
    }
    if (end == std::string::npos) end = buffer_.size();
    if (begin_ >= buffer_.size() && ended_) {
      if (!begun_) throw Unreadable{"empty", "an empty file"};
      return false;
    }
    ++line_;
    part = {buffer_.substr(begin_, end - begin_), /*begins=*/true, line_, line_};
    begin_ = std::min(end + 1, buffer_.size());
    if (is_blank(part.text)) continue;
    begun_ = true;
    return true;
  }
}

}  // namespace moh
