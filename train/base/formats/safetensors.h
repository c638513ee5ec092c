#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"
#include "train/base/formats/weight_file.h"
#include "train/base/io/input_file.h"

namespace moh {

// The safetensors format (https://github.com/huggingface/safetensors): the header's length in 8 little-endian
// bytes, the header (JSON: name -> dtype, shape, data_offsets; "__metadata__" -> strings), the data without
// gaps.

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A safetensors file open for reading. The file is untrusted: opening checks the whole header (its length,
/// UTF-8, JSON, no key twice, known dtypes, every shape against its byte range without overflow, ranges that
/// follow one another from 0 to the end of the file), in time and memory that the header's length bounds,
/// whatever it claims. Stricter than the reference reader where that one accepts what no writer produces:
/// duplicate and unknown keys, more than kMaxTensors tensors, tokens above kMaxTokenBytes, ranks above
/// Shape::kMaxRank.
///
/// F32, BF16, F64, I32, I64 and U8 load as moh's corresponding dtypes, BOOL as uint8; tensors of other types
/// are listed, and their bytes can be read, but not loaded as a Tensor. Errors are of the given InputKind
/// (DataError or CheckpointError) and name the file and the tensor.
class SafetensorsFile : public WeightFile {
 public:
  static constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
  static constexpr std::size_t kMaxTensors = 1 << 18;
  static constexpr std::size_t kMaxMetadata = 1 << 16;
  static constexpr std::size_t kMaxTokenBytes =
      8 << 20;  // maximum length of a string, number or run of white space in the header

  explicit SafetensorsFile(const std::filesystem::path& path, InputKind kind = InputKind::kData);

  const std::filesystem::path& path() const override { return file_.path(); }
  std::string format() const override { return "safetensors"; }
  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override;

  /// Reads one tensor. Throws if there is none of that name or moh lacks its dtype.
  Tensor tensor(std::string_view name) const;
  Tensor tensor(const WeightInfo& tensor) const;
  /// moh's dtype of a tensor. Throws if there is none.
  DType dtype_of(const WeightInfo& tensor) const;

  /// The length and the header as stored in the file: what a checksum of the file covers besides the tensors.
  std::vector<std::byte> raw_header() const;

 protected:
  InputFile file_;

 private:
  std::uint64_t data_begin_ = 0;
};

/// Whether the first bytes of a file, of which 9 suffice, are those of a safetensors file. The length at its
/// start distinguishes it from text.
bool looks_like_safetensors(std::string_view first_bytes);

/// The layout of a safetensors file: tensors by descending element size, then name, so that each is aligned;
/// the header padded with spaces to a multiple of 8. It does not depend on the order of the items.
class SafetensorsLayout {
 public:
  /// Throws ValueError for duplicate names, "__metadata__" as a name, text that is not UTF-8, and items for
  /// which stored_bytes() is empty. header() has at least `header_bytes` bytes, a multiple of 8.
  SafetensorsLayout(std::span<const WeightInfo> items, const WeightFile::Metadata& metadata,
                    std::size_t header_bytes = 0);

  /// Indices of the items in the order of their data.
  std::span<const std::size_t> order() const { return order_; }
  /// The bytes before the data: length and header.
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
  std::vector<std::string> tensors;  ///< of the elements of each tensor, in the order of the layout's items
};

/// Passes a file to `sink`, piece by piece: the header, then the elements of each item, which
/// `elements(index, to)` passes to `to` in order.
SafetensorsChecksums write_safetensors(const SafetensorsLayout& layout,
                                       FunctionRef<void(std::size_t index, ByteSink to)> elements,
                                       ByteSink sink);

/// Names, shapes and stored types of the tensors, in order.
std::vector<WeightInfo> infos_of(std::span<const NamedTensor> tensors);
/// The layout of a file with these tensors, of any device and dtype. Throws as SafetensorsLayout does.
SafetensorsLayout layout_of(std::span<const NamedTensor> tensors, const WeightFile::Metadata& metadata);
/// Passes the file of that layout to `sink`, each tensor block by block (stream_elements). The checksums are
/// in the order of the tensors.
SafetensorsChecksums write_safetensors(const SafetensorsLayout& layout, std::span<const NamedTensor> tensors,
                                       ByteSink sink);

/// Writes a safetensors file atomically (DurableFile). Throws StorageError, and as SafetensorsLayout does.
void save_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      const WeightFile::Metadata& metadata = {});

}  // namespace moh
