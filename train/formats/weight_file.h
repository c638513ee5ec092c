#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/shape.h"
#include "core/tensor.h"

namespace moh {

/// A tensor as a file lists it.
struct WeightInfo {
  std::string name;
  /// In the words of safetensors, whatever the file's format: "F32", "F16". A type that it has not has a name
  /// of the same kind, and cannot be written.
  std::string_view stored_dtype;
  Shape shape;
  std::uint64_t bytes = 0;  ///< of its elements, packed
};

/// What a file holds besides the tensors, for people: names and texts, fit for a terminal.
struct WeightSection {
  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;
};

/// Tensors under names in a file, or in files that belong together, of one of the formats that models come
/// in. Opening has checked all that is listed (files are untrusted); elements are read when they are asked
/// for, by one thread at a time. Errors are CheckpointErrors that name the file and the tensor.
class WeightFile {
 public:
  using Metadata = std::map<std::string, std::string, std::less<>>;

  WeightFile() = default;
  virtual ~WeightFile() = default;
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  /// The file or folder that was opened.
  virtual const std::filesystem::path& path() const = 0;
  /// "safetensors", "safetensors in 4 shards", "PyTorch": for people.
  virtual std::string format() const = 0;
  /// All tensors, in the file's order, names once each.
  virtual std::span<const WeightInfo> tensors() const = 0;
  /// Strings that the file says about itself.
  virtual const Metadata& metadata() const = 0;
  virtual std::vector<WeightSection> other_contents() const { return {}; }

  /// Fills `to` with bytes of a tensor of this file: its elements packed in row-major order, little-endian,
  /// from byte `offset` of them on.
  virtual void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const = 0;
};

}  // namespace moh
