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

/// Name, type and shape of a tensor: of one in a file, to be written, or expected by a model.
struct WeightInfo {
  std::string name;
  /// As safetensors names it, whatever the file's format: "F32", "F16", "F8_E4M3".
  std::string_view stored_dtype;
  Shape shape;
  std::uint64_t bytes = 0;  ///< of its elements, packed
  std::uint64_t place = 0;  ///< position in the file that lists it; its meaning depends on the format
};

/// Other contents of a file, for display: names and texts, safe for a terminal.
struct WeightSection {
  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;
};

/// Named tensors in a file, or in several files of a model. Files are untrusted: the constructors of derived
/// classes check everything listed; elements are read on demand. Not thread-safe. Errors are CheckpointErrors
/// that name the file and the tensor.
class WeightFile {
 public:
  using Metadata = std::map<std::string, std::string, std::less<>>;

  WeightFile() = default;
  virtual ~WeightFile() = default;
  WeightFile(WeightFile&&) = default;

  /// The file or folder that was opened.
  virtual const std::filesystem::path& path() const = 0;
  /// "safetensors", "safetensors in 4 shards", "PyTorch": for display.
  virtual std::string format() const = 0;
  /// All tensors, in the file's order, with distinct names.
  std::span<const WeightInfo> tensors() const { return tensors_; }
  /// The tensor of that name, or nullptr.
  const WeightInfo* find(std::string_view name) const;
  /// Metadata of the file: (key, value) strings.
  const Metadata& metadata() const { return metadata_; }
  virtual std::vector<WeightSection> other_contents() const { return {}; }
  /// All files that are read.
  virtual std::vector<std::filesystem::path> files() const { return {path()}; }
  /// The names of all models in a PyTorch file with several, of which this is one; else empty.
  virtual std::vector<std::string> parts() const { return {}; }

  /// Fills `to` with bytes of a tensor of this file, from byte `offset` of its elements on, which are packed
  /// in row-major order and little-endian.
  virtual void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const = 0;
  /// Passes all bytes of a tensor to `sink`, in order, block by block (element_blocks.h).
  virtual void stream(const WeightInfo& tensor, FunctionRef<void(std::span<const std::byte>)> sink) const;

 protected:
  /// Sets tensors(). Returns a tensor with a duplicate name, or null if there is none.
  const WeightInfo* set_tensors(std::vector<WeightInfo> tensors);

  Metadata metadata_;

 private:
  std::vector<WeightInfo> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_
};

}  // namespace moh
