#include <zlib.h>

#include <cstring>
#include <string_view>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "tests/train/base/formats/torch/torch_bytes.h"
#include "train/base/formats/torch/torch_file.h"
#include "train/base/formats/torch/torch_weights.h"

namespace {

void read_weights(const moh::test::MemoryFile& memory, const std::string& part) {
  try {
    const auto weights = moh::open_torch_weights(memory.path(), part);
    for (const moh::WeightInfo& info : weights->tensors()) {
      std::vector<std::byte> bytes(std::min<std::uint64_t>(info.bytes, 1 << 16));
      weights->read(info, info.bytes - bytes.size(), bytes);
    }
  } catch (const moh::CheckpointError&) {
  }
}

void read_torch_file(const std::string& bytes) {
  const moh::test::MemoryFile memory(bytes);
  try {
    const moh::TorchFile file(memory.path());
    file.describe();
    for (const moh::TorchModel& model : file.models()) read_weights(memory, model.part);
  } catch (const moh::CheckpointError&) {
  }
}

std::uint32_t number_at(const std::string& bytes, std::size_t at, int size) {
  std::uint32_t value = 0;
  for (int i = size; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}

/// Gives the entries of a zip archive the checksums of what is in them, so that the reader gets past those.
std::string with_checksums(std::string zip) {
  constexpr std::size_t kCentral = 46, kLocal = 30;
  for (std::size_t at = zip.find("PK\1\2"); at != std::string::npos && at + kCentral <= zip.size();
       at = zip.find("PK\1\2", at + 4)) {
    const std::size_t size = number_at(zip, at + 24, 4), header = number_at(zip, at + 42, 4);
    if (header + kLocal > zip.size()) continue;
    const std::size_t begin =
        header + kLocal + number_at(zip, header + 26, 2) + number_at(zip, header + 28, 2);
    if (begin > zip.size() || size > zip.size() - begin) continue;
    const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(zip.data() + begin), static_cast<uInt>(size));
    zip.replace(at + 16, 4, moh::test::little_endian_bytes(crc, 4));
  }
  return zip;
}

}  // namespace

/// A file as it is; a zip archive also with checksums put right; a pickle by itself as the object of a file
/// with a storage of 64 bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read_torch_file(bytes);
  if (bytes.starts_with("PK")) read_torch_file(with_checksums(bytes));
  if (bytes.starts_with('\x80')) read_torch_file(moh::test::torch_zip(bytes, {std::string(64, 'x')}));
  return 0;
}
