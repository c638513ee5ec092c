#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/formats/weight_file.h"

namespace moh {

/// Bytes of the elements of a stored tensor; nothing when they are no whole number of bytes or the format has
/// no such type.
std::optional<std::uint64_t> stored_bytes(std::string_view stored_dtype, const Shape& shape);

/// Where tensors stand in a safetensors file: descending element size, then name, so that every tensor is
/// aligned; the header padded with spaces to a multiple of 8. The same tensors give the same layout in any
/// order.
class SafetensorsLayout {
 public:
  /// Throws ValueError for a name twice, "__metadata__" as a name, text that is not UTF-8, and what
  /// stored_bytes() has no number for. What stands before the data takes at least `header_bytes`, a multiple
  /// of 8.
  SafetensorsLayout(std::span<const WeightInfo> items, const WeightFile::Metadata& metadata,
                    std::size_t header_bytes = 0);

  /// The items, as indices, in the order of their data.
  std::span<const std::size_t> order() const { return order_; }
  /// What stands before the data: the header with its length in front.
  std::span<const std::byte> header() const { return std::as_bytes(std::span(header_)); }
  /// Size of the file.
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::size_t> order_;
  std::string header_;
  std::uint64_t bytes_ = 0;
};

using ByteSink = FunctionRef<void(std::span<const std::byte>)>;

/// Checksums (checksum.h) of a safetensors file.
struct SafetensorsChecksums {
  std::string file;
  std::vector<std::string> tensors;  ///< of the elements of each, in the order of the layout's items
};

/// Hands a file to `sink`, piece by piece: the header, then the elements of each item, which
/// `elements(index, to)` hands to `to` in order.
SafetensorsChecksums write_safetensors(const SafetensorsLayout& layout,
                                       FunctionRef<void(std::size_t index, ByteSink to)> elements,
                                       ByteSink sink);

}  // namespace moh
