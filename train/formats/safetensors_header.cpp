#include "train/formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "train/formats/stored_dtype.h"
#include "train/io/printable.h"

namespace moh {

namespace {

/// The characters of the header, read in blocks, so that a hostile header of 100 MB is never in memory as a
/// whole. Refuses what the JSON lexer would let through or would buffer without bound: NUL, which it takes
/// for the end of the input, a byte order mark, which it skips, and strings, numbers and spaces of any
/// length.
class HeaderText {
 public:
  HeaderText(const InputFile& file, std::uint64_t length) : file_(file), unread_(length) {
    skip_leading_space();
  }

  bool at_end() const { return position_ == filled_ && unread_ == 0; }
  char current() const { return block_[position_]; }

  void advance() {
    ++position_;
    if (position_ == filled_) fill();
    if (position_ < filled_) check(current());
  }

  /// Byte of the file that the lexer looks at.
  std::uint64_t offset() const { return next_block_ - filled_ + position_; }

 private:
  // The reference reader takes leading white space too, although the format forbids it.
  void skip_leading_space() {
    fill();
    while (!at_end() && (current() == ' ' || current() == '\t' || current() == '\n' || current() == '\r')) {
      if (++position_ == filled_) fill();
    }
    if (at_end() || current() != '{') {
      file_.fail("header", "a JSON object",
                 at_end() ? "only white space" : "text that does not begin with {");
    }
  }

  void fill() {
    const std::size_t size = std::min<std::uint64_t>(unread_, block_.size());
    if (size == 0) return;
    file_.read(next_block_, std::as_writable_bytes(std::span(block_).first(size)), "header");
    next_block_ += size;
    unread_ -= size;
    filled_ = size;
    position_ = 0;
  }

  void check(char c) {
    if (c == '\0') file_.fail("header", "JSON text", "a NUL byte at byte " + std::to_string(offset()));
    const bool quote = c == '"' && !escaped_;
    if (quote) in_string_ = !in_string_;
    escaped_ = in_string_ && c == '\\' && !escaped_;
    if (quote || (!in_string_ && std::string_view("{}[],:").find(c) != std::string_view::npos)) {
      token_bytes_ = 0;
    } else if (++token_bytes_ > SafetensorsFile::kMaxTokenBytes) {
      file_.fail("header",
                 "strings, numbers and spaces of at most " + std::to_string(SafetensorsFile::kMaxTokenBytes) +
                     " bytes",
                 "a longer one before byte " + std::to_string(offset()));
    }
  }

  const InputFile& file_;
  std::array<char, 1 << 16> block_;
  std::size_t position_ = 0;
  std::size_t filled_ = 0;
  std::uint64_t next_block_ = sizeof(std::uint64_t);
  std::uint64_t unread_;
  bool in_string_ = false;
  bool escaped_ = false;
  std::size_t token_bytes_ = 0;
};

/// HeaderText as the pair of input iterators that the JSON library reads from.
class HeaderIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  HeaderIterator() = default;  // the end
  explicit HeaderIterator(HeaderText* text) : text_(text) {}

  char operator*() const { return text_->current(); }
  HeaderIterator& operator++() {
    text_->advance();
    return *this;
  }
  HeaderIterator operator++(int) {
    HeaderIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const HeaderIterator& other) const { return at_end() == other.at_end(); }

 private:
  bool at_end() const { return text_ == nullptr || text_->at_end(); }
  HeaderText* text_ = nullptr;
};

/// Receives the JSON events and builds the header. A handler of events rather than a parsed document, because
/// the document would have lost duplicate keys, and because a hostile header is refused at its first wrong
/// word.
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
    if (place_ != Place::kShape && place_ != Place::kOffsets) refuse(std::to_string(value));
    numbers_.push_back(value);
    const std::size_t most = place_ == Place::kShape ? Shape::kMaxRank : 2;
    if (numbers_.size() > most) fail_at(place_name(), "at most " + std::to_string(most) + " numbers", "more");
    return true;
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadataValue) {
      header_.metadata[key_] = std::move(value);
      place_ = Place::kMetadata;
    } else if (place_ == Place::kDType) {
      dtype_ = find_safetensors_dtype(value);
      if (dtype_ == nullptr) fail_at("dtype", "a dtype of the safetensors format", printable(value));
      place_ = Place::kTensor;
    } else {
      refuse("a string");
    }
    return true;
  }

  bool start_object(std::size_t) {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTopValue) {
      place_ = key_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(std::string& key) {
    switch (place_) {
      case Place::kTop:
        begin_top_value(key);
        break;
      case Place::kMetadata:
        begin_metadata_value(key);
        break;
      default:
        begin_field(key);
    }
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor) finish_tensor();
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::kShapeValue && place_ != Place::kOffsetsValue) refuse("an array");
    place_ = place_ == Place::kShapeValue ? Place::kShape : Place::kOffsets;
    numbers_.clear();
    return true;
  }

  bool end_array() {
    if (place_ == Place::kOffsets) {
      if (numbers_.size() != 2) fail_at("data_offsets", "2 numbers", std::to_string(numbers_.size()));
      offsets_ = {numbers_[0], numbers_[1]};
    } else {
      shape_ = numbers_;
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    const std::string_view text = error.what();
    const std::size_t reason = text.find(" - ");  // behind the library's own tag and position
    file_.fail("header, before byte " + std::to_string(text_.offset()), "JSON in UTF-8",
               printable(reason == std::string_view::npos ? text : text.substr(reason + 3), 200));
  }

 private:
  static constexpr std::string_view kMetadataKey = "__metadata__";

  enum class Place {
    kStart,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kTensor,
    kDType,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
    kEnd,
  };

  void begin_top_value(std::string& key) {
    place_ = Place::kTopValue;
    key_ = std::move(key);
    if (key_ == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) fail_at("", "this key once", "it twice");
      return;
    }
    if (header_.tensors.size() == SafetensorsFile::kMaxTensors) {
      file_.fail("header", "at most " + std::to_string(SafetensorsFile::kMaxTensors) + " tensors", "more");
    }
    header_.tensors.emplace_back().name = key_;
    dtype_ = nullptr;
    shape_.reset();
    offsets_.reset();
  }

  void begin_metadata_value(std::string& key) {
    const std::string where = "header, __metadata__";
    if (header_.metadata.size() == SafetensorsFile::kMaxMetadata) {
      file_.fail(where, "at most " + std::to_string(SafetensorsFile::kMaxMetadata) + " entries", "more");
    }
    if (header_.metadata.contains(key)) {
      file_.fail(where + ", " + printable(key), "this key once", "it twice");
    }
    place_ = Place::kMetadataValue;
    key_ = std::move(key);
  }

  void begin_field(const std::string& key) {
    if (key == "dtype" && dtype_ == nullptr) {
      place_ = Place::kDType;
    } else if (key == "shape" && !shape_) {
      place_ = Place::kShapeValue;
    } else if (key == "data_offsets" && !offsets_) {
      place_ = Place::kOffsetsValue;
    } else {
      fail_at("keys", "dtype, shape and data_offsets, each once", "another " + printable(key));
    }
  }

  void finish_tensor() {
    if (dtype_ == nullptr || !shape_ || !offsets_) fail_at("keys", "dtype, shape and data_offsets", "fewer");
    WeightInfo& tensor = header_.tensors.back();
    const auto [begin, end] = *offsets_;
    if (end < begin) {
      fail_at("data_offsets", "an end at or after the begin",
              "[" + std::to_string(begin) + ", " + std::to_string(end) + "]");
    }
    tensor.stored_dtype = dtype_->name;
    tensor.place = begin;
    tensor.bytes = end - begin;
    tensor.shape = checked_shape(tensor.bytes);
  }

  /// The shape, when its elements take exactly `bytes`.
  Shape checked_shape(std::uint64_t bytes) const {
    std::uint64_t bits = static_cast<std::uint64_t>(dtype_->bits);
    bool overflow = false;
    std::vector<std::int64_t> extents;
    for (std::uint64_t extent : *shape_) {
      overflow = overflow || extent > INT64_MAX || __builtin_mul_overflow(bits, extent, &bits);
      extents.push_back(static_cast<std::int64_t>(extent));
    }
    if (overflow) fail_at("shape", "a size within 64 bits", "more");
    if (bits % 8 != 0) fail_at("shape", "a whole number of bytes", std::to_string(bits) + " bits");
    if (bits / 8 != bytes) {
      fail_at("data_offsets", std::to_string(bits / 8) + " bytes for its shape and dtype",
              std::to_string(bytes));
    }
    return Shape(std::span<const std::int64_t>(extents));
  }

  std::string place_name() const { return place_ == Place::kShape ? "shape" : "data_offsets"; }

  /// The JSON value at hand is of a kind that does not belong here.
  [[noreturn]] void refuse(const std::string& found) const {
    switch (place_) {
      case Place::kStart:
        file_.fail("header", "a JSON object", found);
      case Place::kTopValue:
        fail_at("", "an object", found);
      case Place::kMetadataValue:
        file_.fail("header, __metadata__, " + printable(key_), "a string", found);
      case Place::kDType:
        fail_at("dtype", "a string", found);
      case Place::kShapeValue:
      case Place::kOffsetsValue:
        fail_at(place_ == Place::kShapeValue ? "shape" : "data_offsets", "an array", found);
      default:
        fail_at(place_name(), "whole numbers from 0 to 2^64 - 1", found);
    }
  }

  /// Refuses the tensor (or the metadata) at hand.
  [[noreturn]] void fail_at(const std::string& what, const std::string& expected,
                            const std::string& found) const {
    file_.fail("header, " + printable(key_) + (what.empty() ? "" : ", " + what), expected, found);
  }

  const InputFile& file_;
  const HeaderText& text_;
  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  bool has_metadata_ = false;
  std::string key_;  // the tensor, __metadata__ or the key within it
  const StoredDType* dtype_ = nullptr;
  std::vector<std::uint64_t> numbers_;
  std::optional<std::vector<std::uint64_t>> shape_;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> offsets_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const InputFile& file, std::uint64_t length) {
  SafetensorsHeader header;
  HeaderText text(file, length);
  HeaderHandler handler(file, text, header);
  nlohmann::json::sax_parse(HeaderIterator(&text), HeaderIterator(), &handler);
  return header;
}

}  // namespace moh
