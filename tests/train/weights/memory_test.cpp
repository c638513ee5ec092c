// The memory for loading and converting: a block, whatever the size of the tensor.

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/safetensors_text.h"
#include "train/apps/convert/convert.h"
#include "train/families/families.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

constexpr std::int64_t kElements = std::int64_t{32} << 20;  // 128 MiB of float32
constexpr long kAllowedKib = 24 << 10;                      // two blocks, and what the C library keeps

/// A file with one tensor of zeros, with holes in place of its elements.
std::filesystem::path sparse_file(const TemporaryFolder& folder) {
  const std::string bytes = std::to_string(kElements * 4);
  const std::string file =
      write_file(folder / "large.safetensors",
                 safetensors_bytes(R"({"w":{"dtype":"F32","shape":[)" + std::to_string(kElements) +
                                   R"(],"data_offsets":[0,)" + bytes + "]}}"));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) + kElements * 4);
  return file;
}

/// The most memory that this process has had so far, in KiB.
long peak_kib() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

TEST_CASE("weights: loading and converting hold a block, not a tensor") {
  const TemporaryFolder folder;
  const std::filesystem::path file = sparse_file(folder);
  const NamedParameter parameter{"w", Variable(full({kElements}, 1, DType::kBFloat16))};
  const auto weights = open_weights(locate_model(file));

  const long before = peak_kib();
  load_weights(std::vector{parameter}, *weights);
  CHECK(peak_kib() - before < kAllowedKib);
  CHECK(parameter.variable.value().data<bfloat16>()[kElements - 1] == 0.0F);

  ConvertOptions options{.from = file, .to = folder / "half.safetensors", .dtype = "F16"};
  convert_model(options, families(), {[](const ConvertReport&) {}, [](std::uint64_t) {}});
  content_hash(*weights, [](std::uint64_t) {});
  CHECK(peak_kib() - before < kAllowedKib);
  CHECK(std::filesystem::file_size(options.to) > static_cast<std::uintmax_t>(kElements * 2));
}

}  // namespace moh
