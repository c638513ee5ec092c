#include "train/base/formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>
#include <utility>

#include "train/base/formats/stored_dtype.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// The characters of the header, read in blocks, so that a hostile header of 100 MB is never in memory as a
/// whole. Refuses what the JSON lexer would accept or buffer without limit: NUL, which it takes for the end
/// of the input, a byte order mark, which it skips, and strings, numbers and white space of any length.
class HeaderText final : public std::streambuf {
 public:
  HeaderText(const InputFile& file, std::uint64_t length) : file_(file), unread_(length) {
    // The reference reader accepts leading white space, too, although the format forbids it.
    int_type first = sgetc();
    while (first == ' ' || first == '\t' || first == '\n' || first == '\r') first = snextc();
    if (first == '{') return;
    const bool at_end = first == traits_type::eof();
    file.fail("header", "a JSON object", at_end ? "only white space" : "text that does not begin with {");
  }

  /// Offset in the file of the next byte to read.
  std::uint64_t offset() const { return block_end_ - static_cast<std::uint64_t>(egptr() - gptr()); }

 private:
  /// Reads the next block up to the first refused byte, so that errors are reported in the order of the text.
  int_type underflow() override {
    const std::size_t size = std::min<std::uint64_t>(unread_, block_.size());
    if (size == 0) return traits_type::eof();
    file_.read(block_end_, std::as_writable_bytes(std::span(block_).first(size)), "header");
    std::size_t accepted = 0;
    while (accepted < size && accept(block_[accepted])) ++accepted;
    if (accepted == 0) refuse(block_[0]);
    block_end_ += accepted;
    unread_ -= accepted;
    setg(block_.data(), block_.data(), block_.data() + accepted);
    return traits_type::to_int_type(block_[0]);
  }

  bool accept(char c) {
    const bool quote = c == '"' && !escaped_;
    if (quote) in_string_ = !in_string_;
    escaped_ = in_string_ && c == '\\' && !escaped_;
    const bool ends_token =
        quote || (!in_string_ && std::string_view("{}[],:").find(c) != std::string_view::npos);
    token_bytes_ = ends_token ? 0 : token_bytes_ + 1;
    return c != '\0' && token_bytes_ <= SafetensorsFile::kMaxTokenBytes;
  }

  [[noreturn]] void refuse(char c) const {
    const std::string place = "byte " + std::to_string(block_end_);
    if (c == '\0') file_.fail("header", "JSON text", "a NUL byte at " + place);
    const std::string most = std::to_string(SafetensorsFile::kMaxTokenBytes);
    file_.fail("header", "strings, numbers and spaces of at most " + most + " bytes",
               "a longer one before " + place);
  }

  const InputFile& file_;
  std::array<char, 1 << 16> block_;
  std::uint64_t block_end_ = sizeof(std::uint64_t);  // byte of the file
  std::uint64_t unread_;
  bool in_string_ = false;
  bool escaped_ = false;
  std::size_t token_bytes_ = 0;
};

/// Builds the header from JSON (SAX) events. A parsed document would have lost duplicate keys, and a hostile
/// header would be parsed completely instead of being refused at its first error.
class HeaderHandler {
 public:
  HeaderHandler(const InputFile& file, const HeaderText& text, SafetensorsHeader& header)
      : file_(file), text_(text), header_(header) {}

  bool null() { refuse("null"); }
  bool boolean(bool) { refuse("a boolean"); }
  bool number_integer(std::int64_t value) { refuse(std::to_string(value)); }
  bool number_float(double, const std::string& text) { refuse(printable(text)); }
  bool binary(nlohmann::json::binary_t&) { refuse("binary data"); }

  bool number_unsigned(std::uint64_t value) {
    if (expected() != kNumbers) refuse(std::to_string(value));
    const std::size_t most = field_ == "shape" ? Shape::kMaxRank : 2;
    if (numbers_->size() == most) fail(field_, "at most " + std::to_string(most) + " numbers", "more");
    numbers_->push_back(value);
    return true;
  }

  bool string(std::string& value) {
    if (expected() != kString) refuse(kString);
    if (in_metadata()) {
      header_.metadata[field_] = std::move(value);
    } else {
      dtype_ = find_safetensors_dtype(value);
      if (dtype_ == nullptr) fail(field_, "a dtype of the safetensors format", printable(value));
    }
    return true;
  }

  bool start_object(std::size_t) {
    if (expected() != kObject) refuse(kObject);
    ++depth_;
    return true;
  }

  bool start_array(std::size_t) {
    if (expected() != kArray) refuse(kArray);
    numbers_ = &(field_ == "shape" ? shape_ : offsets_).emplace();
    ++depth_;
    return true;
  }

  bool key(std::string& key) {
    if (depth_ == 1) {
      begin_entry(key);
    } else if (in_metadata()) {
      begin_metadata(key);
    } else {
      begin_field(key);
    }
    return true;
  }

  bool end_array() {
    --depth_;
    if (field_ == "data_offsets" && numbers_->size() != 2) {
      fail(field_, "2 numbers", std::to_string(numbers_->size()));
    }
    return true;
  }

  bool end_object() {
    if (--depth_ == 1 && !in_metadata()) finish_tensor();
    field_.clear();
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    const std::string_view text = error.what();
    const std::size_t reason = text.find(" - ");  // follows the library's own tag and position
    file_.fail("header, before byte " + std::to_string(text_.offset()), "JSON in UTF-8",
               printable(reason == std::string_view::npos ? text : text.substr(reason + 3), 200));
  }

 private:
  static constexpr std::string_view kMetadataKey = "__metadata__";
  static constexpr std::string_view kObject = "an object", kArray = "an array", kString = "a string";
  static constexpr std::string_view kNumbers = "whole numbers from 0 to 2^64 - 1";

  bool in_metadata() const { return entry_ == kMetadataKey; }

  /// The type that the current value has to have.
  std::string_view expected() const {
    if (depth_ < 2) return kObject;
    if (depth_ == 3) return kNumbers;
    return in_metadata() || field_ == "dtype" ? kString : kArray;
  }

  void begin_entry(std::string& key) {
    entry_ = std::move(key);
    if (in_metadata()) {
      if (std::exchange(has_metadata_, true)) fail("", "this key once", "it twice");
      return;
    }
    if (header_.tensors.size() == SafetensorsFile::kMaxTensors) {
      file_.fail("header", "at most " + std::to_string(SafetensorsFile::kMaxTensors) + " tensors", "more");
    }
    header_.tensors.emplace_back().name = entry_;
    dtype_ = nullptr;
    shape_.reset();
    offsets_.reset();
  }

  void begin_metadata(std::string& key) {
    if (header_.metadata.size() == SafetensorsFile::kMaxMetadata) {
      fail("", "at most " + std::to_string(SafetensorsFile::kMaxMetadata) + " entries", "more");
    }
    field_ = std::move(key);
    if (header_.metadata.contains(field_)) fail(field_, "this key once", "it twice");
  }

  void begin_field(std::string& key) {
    field_ = std::move(key);
    const bool is_new = (field_ == "dtype" && dtype_ == nullptr) || (field_ == "shape" && !shape_) ||
                        (field_ == "data_offsets" && !offsets_);
    if (!is_new) {
      fail("keys", "dtype, shape and data_offsets, each once", "also the key " + printable(field_));
    }
  }

  void finish_tensor() {
    if (dtype_ == nullptr || !shape_ || !offsets_) fail("keys", "dtype, shape and data_offsets", "fewer");
    WeightInfo& tensor = header_.tensors.back();
    const std::uint64_t begin = offsets_->front(), end = offsets_->back();
    if (end < begin) {
      fail("data_offsets", "an end at or after the begin",
           "[" + std::to_string(begin) + ", " + std::to_string(end) + "]");
    }
    tensor.stored_dtype = dtype_->name;
    tensor.place = begin;
    tensor.bytes = end - begin;
    tensor.shape = checked_shape(tensor.bytes);
  }

  /// The shape, when its elements take exactly `bytes`.
  Shape checked_shape(std::uint64_t bytes) const {
    auto bits = static_cast<std::uint64_t>(dtype_->bits);
    bool overflow = false;
    std::vector<std::int64_t> extents;
    for (std::uint64_t extent : *shape_) {
      overflow = overflow || extent > INT64_MAX || __builtin_mul_overflow(bits, extent, &bits);
      extents.push_back(static_cast<std::int64_t>(extent));
    }
    if (overflow) fail("shape", "a size within 64 bits", "more");
    if (bits % 8 != 0) fail("shape", "a whole number of bytes", std::to_string(bits) + " bits");
    if (bits / 8 != bytes) {
      fail("data_offsets", std::to_string(bits / 8) + " bytes for its shape and dtype",
           std::to_string(bytes));
    }
    return Shape(std::span<const std::int64_t>(extents));
  }

  /// The JSON value at hand is of a kind that does not belong here.
  [[noreturn]] void refuse(std::string_view found) const { fail(field_, expected(), found); }

  /// Refuses the tensor (or the metadata) at hand, or `what` of it.
  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found) const {
    file_.fail("header, " + printable(entry_) + (what.empty() ? "" : ", " + printable(what)), expected,
               found);
  }

  const InputFile& file_;
  const HeaderText& text_;
  SafetensorsHeader& header_;
  int depth_ = 0;              // of objects and arrays in each other
  std::string entry_, field_;  // the last key of the header, and of the object that is its value
  bool has_metadata_ = false;
  // State of the current tensor:
  const StoredDType* dtype_ = nullptr;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
  std::vector<std::uint64_t>* numbers_ = nullptr;  // that of them whose array is open
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const InputFile& file, std::uint64_t length) {
  SafetensorsHeader header;
  HeaderText text(file, length);
  std::istream stream(&text);
  HeaderHandler handler(file, text, header);
  nlohmann::json::sax_parse(stream, &handler);
  return header;
}

}  // namespace moh
