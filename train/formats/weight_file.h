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

#include "core/function_ref.h"
#include "core/shape.h"

namespace moh {

/// A tensor by its name: as a file lists it, as it is to be stored, or as a model expects it.
struct WeightInfo {
  std::string name;
  /// As safetensors names it, whatever the file's format: "F32", "F16", "F8_E4M3".
  std::string_view stored_dtype;
  Shape shape;
  std::uint64_t bytes = 0;  ///< of its elements, packed
  std::uint64_t place = 0;  ///< where the file that lists it finds them, in a measure of its format
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
  WeightFile(WeightFile&&) = default;

  /// The file or folder that was opened.
  virtual const std::filesystem::path& path() const = 0;
  /// "safetensors", "safetensors in 4 shards", "PyTorch": for people.
  virtual std::string format() const = 0;
  /// All tensors, in the file's order, names once each.
  std::span<const WeightInfo> tensors() const { return tensors_; }
  /// The tensor of that name, or nullptr.
  const WeightInfo* find(std::string_view name) const;
  /// Strings that the file says about itself.
  const Metadata& metadata() const { return metadata_; }
  virtual std::vector<WeightSection> other_contents() const { return {}; }
  /// Every file that is read, which path() names or whose folder it names.
  virtual std::vector<std::filesystem::path> files() const { return {path()}; }
  /// What a PyTorch file calls its models, where these tensors are one of several; else empty.
  virtual std::vector<std::string> parts() const { return {}; }

  /// Fills `to` with bytes of a tensor of this file: its elements packed in row-major order, little-endian,
  /// from byte `offset` of them on.
  virtual void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const = 0;
  /// Hands all bytes of a tensor to `sink`, in order, block by block (element_blocks.h).
  virtual void stream(const WeightInfo& tensor, FunctionRef<void(std::span<const std::byte>)> sink) const;

 protected:
  /// Says what tensors() is. Returns one whose name another one has too, null if there is none.
  const WeightInfo* set_tensors(std::vector<WeightInfo> tensors);

  Metadata metadata_;

 private:
  std::vector<WeightInfo> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_
};

}  // namespace moh
