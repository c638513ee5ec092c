#include "train/weights/merged_weights.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "tests/support/message_of.h"
#include "tests/support/same_bits.h"
#include "tests/support/temporary_folder.h"
#include "train/base/formats/safetensors.h"
#include "train/weights/load_weights.h"
#include "train/weights/locate_model.h"

namespace moh {

using test::same_bits;

namespace {

constexpr double kScale = 1.5;

Tensor numbers(const Shape& shape, std::uint64_t stream, DType dtype) {
  const Tensor values = empty(shape, DType::kFloat32);
  fill_normal(values, {1, stream}, 0, 1);
  return values.to(dtype);
}

/// A file with an adapted map `a` [out, in], a map without adapter, and a vector.
std::vector<NamedTensor> tensors_of_rank(std::int64_t out, std::int64_t in, std::int64_t rank, DType dtype) {
  return {{"a.weight", numbers({out, in}, 1, dtype)},
          {"a.bias", numbers({out}, 2, dtype)},
          {"a.lora_A.weight", numbers({rank, in}, 3, dtype)},
          {"a.lora_B.weight", numbers({out, rank}, 4, dtype)},
          {"b.weight", numbers({out, in}, 5, dtype)}};
}

std::unique_ptr<WeightFile> opened(const std::filesystem::path& path,
                                   const std::vector<NamedTensor>& tensors) {
  save_safetensors(path, tensors);
  return open_weights(locate_model(path));
}

Tensor read_all(const WeightFile& file, const std::string& name, DType dtype) {
  const WeightInfo* info = file.find(name);
  REQUIRE(info != nullptr);
  NamedParameter p{name, Variable(full(info->shape, 0, dtype))};
  load_weights({&p, 1}, file);
  return p.variable.value();
}

/// W + scale * B A in float64, of the values in float32.
double expected(const std::vector<NamedTensor>& tensors, std::int64_t row, std::int64_t column) {
  const Tensor w = tensors[0].tensor.to(DType::kFloat32), a = tensors[2].tensor.to(DType::kFloat32),
               b = tensors[3].tensor.to(DType::kFloat32);
  double sum = 0;
  for (std::int64_t k = 0; k < a.dim(0); ++k)
    sum += double{b.data<float>()[row * a.dim(0) + k]} * a.data<float>()[k * a.dim(1) + column];
  return w.data<float>()[row * w.dim(1) + column] + kScale * sum;
}

}  // namespace

TEST_CASE("weights: merged adapters are added in float32 and rounded once, all else is as it is") {
  TemporaryFolder folder;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    // Wide and narrow, so that blocks end inside rows.
    for (const Shape& shape : {Shape{5, 7}, Shape{3, 1100000}, Shape{9, 2}}) {
      const std::vector<NamedTensor> tensors = tensors_of_rank(shape[0], shape[1], 2, dtype);
      const auto file = merged(opened(folder / "x.safetensors", tensors), kScale, "");
      REQUIRE(file->tensors().size() == 3);
      CHECK(same_bits(read_all(*file, "a.bias", dtype), tensors[1].tensor));
      CHECK(same_bits(read_all(*file, "b.weight", dtype), tensors[4].tensor));
      const Tensor sum = read_all(*file, "a.weight", dtype).to(DType::kFloat32);
      const double rounding = dtype == DType::kFloat32 ? 1e-6 : 1.0 / 256;
      for (std::int64_t i = 0; i < sum.numel(); i += 1 + sum.numel() / 1000) {
        const double value = expected(tensors, i / shape[1], i % shape[1]);
        CHECK(sum.data<float>()[i] == Approx(value).epsilon(rounding).margin(1e-5));
      }
    }
  }
}

TEST_CASE("weights: merged adapters in another type have the sums' only rounding") {
  TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = tensors_of_rank(6, 5, 2, DType::kBFloat16);
  const auto wide = merged(opened(folder / "x.safetensors", tensors), kScale, "F32");
  CHECK(wide->find("a.weight")->stored_dtype == "F32");
  CHECK(wide->find("a.weight")->bytes == 4 * 30);
  CHECK(wide->find("b.weight")->stored_dtype == "BF16");
  const Tensor sums = read_all(*wide, "a.weight", DType::kFloat32);
  const auto same = merged(opened(folder / "y.safetensors", tensors), kScale, "");
  CHECK(same_bits(read_all(*same, "a.weight", DType::kBFloat16), sums.to(DType::kBFloat16)));
  CHECK(std::abs(sums.data<float>()[7] - expected(tensors, 1, 2)) < 1e-6);
}

TEST_CASE("weights: adapters that do not fit their weights are refused by name") {
  TemporaryFolder folder;
  int count = 0;
  const auto refusal = [&](std::size_t changed, const NamedTensor& by) {
    std::vector<NamedTensor> tensors = tensors_of_rank(6, 5, 2, DType::kFloat32);
    tensors[changed] = by;
    const auto path = folder / ("x" + std::to_string(count++) + ".safetensors");
    const std::string text = message_of<CheckpointError>([&] { merged(opened(path, tensors), kScale, ""); });
    CHECK(text.starts_with(path.string()));
    return text.substr(path.string().size());
  };
  CHECK(refusal(2, {"other", zeros({2, 5}, DType::kFloat32)}) ==
        ": a.lora_A.weight: expected a tensor, found none; an adapter has two matrices beside the weight");
  CHECK(refusal(0, {"other", zeros({2, 5}, DType::kFloat32)}).starts_with(": a.weight: expected a tensor"));
  CHECK(refusal(2, {"a.lora_A.weight", zeros({3, 5}, DType::kFloat32)}) ==
        ": a.weight: expected the shape of B A, [6, 2] times [3, 5], found [6, 5]");
  CHECK(refusal(2, {"a.lora_A.weight", zeros({10}, DType::kFloat32)})
            .starts_with(": a.lora_A.weight: expected a matrix"));
  CHECK(refusal(3, {"a.lora_B.weight", zeros({6, 2}, DType::kInt32)})
            .starts_with(": a.lora_B.weight: expected F32, BF16 or F16, found I32"));
}

}  // namespace moh
