#include "train/trainer/run/tensorboard_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/error.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/input_file.h"

namespace moh {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "frames and numbers are little-endian");

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// A message of protocol buffers that is put together field by field.
class Message {
 public:
  void put(int field, std::uint64_t value) {
    key(field, 0);
    varint(value);
  }
  void put(int field, double value) {
    key(field, 1);
    bytes_ += bytes_of(value);
  }
  void put(int field, float value) {
    key(field, 5);
    bytes_ += bytes_of(value);
  }
  void put(int field, std::string_view bytes) {
    key(field, 2);
    varint(bytes.size());
    bytes_ += bytes;
  }
  void put(int field, const Message& message) { put(field, std::string_view(message.bytes_)); }
  /// Repeated and packed.
  void put(int field, std::span<const double> values) {
    std::string packed;
    for (const double value : values) packed += bytes_of(value);
    put(field, std::string_view(packed));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, std::uint64_t type) { varint(static_cast<std::uint64_t>(field) << 3 | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}();

/// A checksum that stands beside what it is of, as TFRecord masks it: a checksum of both would be weak.
std::string masked_checksum(std::string_view bytes) {
  return bytes_of(std::rotr(crc32c(bytes), 15) + 0xA282EAD8U);
}

std::string framed(const Message& event) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(event.bytes().size()));
  return length + masked_checksum(length) + event.bytes() + masked_checksum(event.bytes());
}

/// Field numbers of tensorflow.Event, Summary, Summary.Value, Summary.Image and HistogramProto.
enum EventField : int { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
constexpr int kValue = 1;
enum ValueField : int { kTag = 1, kSimpleValue = 2, kImage = 4, kHistogram = 5 };
enum ImageField : int { kHeight = 1, kWidth, kColorspace, kEncoded };
enum HistogramField : int { kMin = 1, kMax, kNumber, kSum, kSumOfSquares, kBucketLimits, kBuckets };

/// The values of a step, by their tags.
class Summary {
 public:
  void add_scalar(const std::string& tag, double value) {
    Message entry;
    entry.put(kTag, tag);
    entry.put(kSimpleValue, static_cast<float>(value));
    message_.put(kValue, entry);
  }
  void add_histogram(const std::string& tag, const std::vector<double>& heights) {
    Message entry;
    entry.put(kTag, tag);
    entry.put(kHistogram, histogram(heights));
    message_.put(kValue, entry);
  }
  /// `png` is a PNG file of RGB pixels.
  void add_picture(const std::string& tag, std::string_view png) {
    constexpr std::uint64_t kRgb = 3;
    constexpr std::size_t kWidthAt = 16,
                          kHeightAt = 20;  // in a PNG file, of which they begin the first chunk
    Message image, entry;
    image.put(kHeight, number_at(png, kHeightAt));
    image.put(kWidth, number_at(png, kWidthAt));
    image.put(kColorspace, kRgb);
    image.put(kEncoded, png);
    entry.put(kTag, tag);
    entry.put(kImage, image);
    message_.put(kValue, entry);
  }
  const Message& message() const { return message_; }

 private:
  /// 32 bits, the highest first; 0 beyond the end.
  static std::uint64_t number_at(std::string_view bytes, std::size_t place) {
    std::uint64_t number = 0;
    for (const char byte : bytes.substr(std::min(place, bytes.size()), 4))
      number = number << 8 | static_cast<unsigned char>(byte);
    return number;
  }
  /// Element h fills the bucket from h to h + 1.
  static Message histogram(const std::vector<double>& heights) {
    std::vector<double> limits(heights.size());
    double number = 0, sum = 0, squares = 0;
    for (std::size_t h = 0; h < heights.size(); ++h) {
      const auto place = static_cast<double>(h);
      limits[h] = place + 1;
      number += heights[h];
      sum += place * heights[h];
      squares += place * place * heights[h];
    }
    Message result;
    result.put(kMin, 0.0);
    result.put(kMax, static_cast<double>(heights.size()));
    result.put(kNumber, number);
    result.put(kSum, sum);
    result.put(kSumOfSquares, squares);
    result.put(kBucketLimits, std::span<const double>(limits));
    result.put(kBuckets, std::span<const double>(heights));
    return result;
  }

  Message message_;
};

/// A number that JSON lacks is null, and named in the record's object "non_finite".
double not_finite(const json& record, const std::string& field) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const json::json_pointer place = json::json_pointer("/non_finite") / field;
  if (record.contains(place) && record[place] == "inf") return kInfinity;
  if (record.contains(place) && record[place] == "-inf") return -kInfinity;
  return std::numeric_limits<double>::quiet_NaN();
}

void add_layers(Summary& summary, const std::string& tag, const json& layers) {
  const auto is_number = [](const json& value) { return value.is_number(); };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const json& list = layers[i];
    if (list.is_number()) summary.add_scalar(tag + "/layer_" + std::to_string(i), list.get<double>());
    if (!list.is_array() || list.empty() || !std::ranges::all_of(list, is_number)) continue;
    summary.add_histogram(tag + "/layer_" + std::to_string(i), list.get<std::vector<double>>());
  }
}

constexpr std::uint64_t kMaxPicture = std::uint64_t{1} << 28;

/// The picture that a record names; empty if it is not there any more.
std::string picture_in(const std::filesystem::path& run_folder, const std::string& name) {
  std::error_code error;
  const std::filesystem::path path = run_folder / name;
  return std::filesystem::is_regular_file(path, error) ? read_text_file(path, InputKind::kData, kMaxPicture)
                                                       : "";
}

Summary summary_of(const json& record, const std::string& kind, const std::filesystem::path& run_folder) {
  Summary summary;
  const std::string prefix = kind + "/";
  for (const auto& [field, value] : record.items()) {
    if (field == "step" || field == "unix_time" || field == "non_finite") continue;
    std::string tag = prefix;
    tag += field;
    if (value.is_number()) summary.add_scalar(tag, value.get<double>());
    if (value.is_null()) summary.add_scalar(tag, not_finite(record, field));
    if (value.is_array()) add_layers(summary, tag, value);
    if (field == "picture" && value.is_string()) {
      const std::string png = picture_in(run_folder, value.get<std::string>());
      if (!png.empty()) summary.add_picture(tag, png);
    }
    if (field == "event" && value.is_string()) summary.add_scalar(prefix + value.get<std::string>(), 1);
  }
  return summary;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

std::string tensorboard_header() {
  Message event;
  event.put(kWallTime, 0.0);
  event.put(kFileVersion, std::string_view("brain.Event:2"));
  return framed(event);
}

std::string tensorboard_event(std::string_view record, const std::filesystem::path& run_folder) {
  const json parsed = json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return "";
  const auto kind = parsed.find("kind"), step = parsed.find("step"), time = parsed.find("unix_time");
  if (kind == parsed.end() || !kind->is_string()) return "";
  if (step == parsed.end() || !step->is_number_integer()) return "";
  const Summary summary = summary_of(parsed, kind->get<std::string>(), run_folder);
  if (summary.message().bytes().empty()) return "";
  Message event;
  event.put(kWallTime, time != parsed.end() && time->is_number() ? time->get<double>() : 0.0);
  event.put(kStep, static_cast<std::uint64_t>(step->get<std::int64_t>()));
  event.put(kSummary, summary.message());
  return framed(event);
}

TensorBoardFile::TensorBoardFile(std::filesystem::path path, const std::filesystem::path& metrics)
    : path_(std::move(path)) {
  DurableFile file(path_);
  file.write(tensorboard_header());
  std::ifstream in(metrics, std::ios::binary);
  for (std::string line; std::getline(in, line);) file.write(tensorboard_event(line, path_.parent_path()));
  if (in.bad() || !in.eof())
    throw StorageError(error_message(metrics.string(), "", "a readable file", "a read error"));
  file.commit();
  fd_ = open_to_append(path_);
}

TensorBoardFile::~TensorBoardFile() {
  if (fd_ >= 0) ::close(fd_);
}

void TensorBoardFile::append(std::string_view record) {
  const std::string event = tensorboard_event(record, path_.parent_path());
  if (!event.empty()) write_fully(fd_, path_, std::as_bytes(std::span(event)), event.size());
}

}  // namespace moh
