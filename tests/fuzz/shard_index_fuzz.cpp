#include <string>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/weights/sharded_weights.h"

namespace {

/// A shard with one tensor, which is called as the file is: an index can be right about it.
class Shard final : public moh::WeightFile {
 public:
  explicit Shard(const std::filesystem::path& path) : path_(path) {
    set_tensors({{path.stem().string(), "U8", {3}, 3}});
  }

  const std::filesystem::path& path() const override { return path_; }
  std::string format() const override { return "bytes"; }
  void read(const moh::WeightInfo&, std::uint64_t, std::span<std::byte> to) const override {
    for (std::byte& byte : to) byte = std::byte{7};
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const moh::test::MemoryFile memory(data, size);
  try {
    const auto weights = moh::open_sharded_weights(
        memory.path(), [](const std::filesystem::path& path) { return std::make_unique<Shard>(path); });
    std::byte bytes[3];
    for (const moh::WeightInfo& tensor : weights->tensors()) weights->read(tensor, 0, bytes);
  } catch (const moh::CheckpointError&) {
  }
  return 0;
}
