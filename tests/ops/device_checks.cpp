#include "tests/ops/device_checks.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cuda/backend.h"
#include "core/error.h"
#include "core/random.h"
#include "ops/attention/head_lists.h"
#include "ops/indices.h"
#include "ops/linalg/linear_kernels.h"
#include "ops/optim/adamw.h"
#include "ops/optim/clip_grad_norm.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"

namespace moh::test {

namespace {

/// A selection of about half the pairs, the same each time; some tokens select nothing.
Tensor selection(const Shape& shape) {
  const Tensor selected = empty(shape, DType::kUInt8);
  for (std::int64_t i = 0; i < selected.numel(); ++i)
    selected.data<std::uint8_t>()[i] = random_uniform({5, 1}, static_cast<std::uint64_t>(i)) < 0.5F;
  return selected;
}

template <class T>
bool same_elements(const Tensor& a, const Tensor& b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (a.data<T>()[i] != b.data<T>()[i]) return false;
  }
  return true;
}

/// One parameter with all that AdamW keeps for it.
AdamWParameter parameter(std::int64_t count, DType dtype, Device device) {
  const auto tensor = [&](std::uint64_t seed) { return normal({count}, seed).to(DType::kFloat32); };
  AdamWParameter p{tensor(1).to(dtype), tensor(2), tensor(3), tensor(4), {}, 0.1};
  p.exp_avg_sq.copy_from(uniform({count}, 0.1, 1.0, 4));
  if (dtype == DType::kBFloat16) p.master = p.value.to(DType::kFloat32);
  for (Tensor* part : {&p.value, &p.grad, &p.exp_avg, &p.exp_avg_sq, &p.master}) {
    if (part->defined()) *part = part->to(device);
  }
  return p;
}

void check_adamw(DType dtype) {
  constexpr std::int64_t kCount = 20000;  // more than a chunk
  const AdamWStep step{
      .step = 3, .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .grad_scale = 0.5};
  const AdamWParameter expected = parameter(kCount, dtype, kCpu),
                       found = parameter(kCount, dtype, open_gpu());
  adamw({&expected, 1}, step);
  adamw({&found, 1}, step);
  const double unit = dtype == DType::kBFloat16 ? 0x1p-6 : 1e-5;
  check_close(found.value.to(kCpu), expected.value, unit, "value");
  check_close(found.exp_avg.to(kCpu), expected.exp_avg, 1e-6, "exp_avg");
  check_close(found.exp_avg_sq.to(kCpu), expected.exp_avg_sq, 1e-6, "exp_avg_sq");
  if (expected.master.defined()) check_close(found.master.to(kCpu), expected.master, 1e-5, "master");
}

}  // namespace

void check_tensors_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    const Tensor x = normal({7, 11}).to(DType::kFloat32), on_gpu = x.to(gpu);
    CHECK(on_gpu.device() == gpu);
    CHECK(same_elements<float>(on_gpu.to(kCpu), x, x.numel()));
    CHECK(same_elements<bfloat16>(on_gpu.to(DType::kBFloat16).to(kCpu), x.to(DType::kBFloat16), x.numel()));
    CHECK(same_elements<float>(on_gpu.slice(2, 5).clone().to(kCpu), x.slice(2, 5), 3 * 11));
    const Tensor sum = on_gpu.clone(), expected = x.clone();
    sum.add(on_gpu.to(DType::kBFloat16));
    sum.scale(0.75);
    expected.add(x.to(DType::kBFloat16));
    expected.scale(0.75);
    CHECK(same_elements<float>(sum.to(kCpu), expected, x.numel()));
    CHECK(full({}, 2.5, DType::kBFloat16, gpu).item() == 2.5);
    CHECK(full({3}, -4, DType::kInt64, gpu).select(1).item() == -4);
    CHECK(on_gpu.all_finite());
    on_gpu.select(6).slice(10, 11).fill(std::numeric_limits<double>::infinity());
    CHECK_FALSE(on_gpu.all_finite());
    CHECK_THROWS_AS(on_gpu.add(x), DeviceError);
  });
}

void check_indices_on_device() {
  const Device gpu = open_gpu();
  const IndexRange range{.bound = 5, .ignored = -100, .of = "rows of table"};
  const Tensor good = tensor_of<std::int32_t>({4}, {0, 4, -100, 2}).to(gpu);
  CHECK(checked_indices("embedding", "ids", good, gpu, range).to(kCpu).data<std::int64_t>()[2] == -100);
  const Tensor bad = tensor_of<std::int64_t>({3}, {1, 5, 2}).to(gpu);
  const Tensor replaced = checked_indices("embedding", "ids", bad, gpu, range);
  CHECK_THROWS_WITH(cuda::synchronize(),
                    "embedding: ids: expected 0 to 4 or -100 (rows of table), found 5 at element 1");
  CHECK_NOTHROW(cuda::synchronize());  // said once
  CHECK(replaced.to(kCpu).data<std::int64_t>()[1] == 0);
  CHECK(bad.to(kCpu).data<std::int64_t>()[1] == 5);
}

void check_head_lists_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    for (const Shape& shape :
         {Shape{1, 1, 1}, Shape{2, 70, 6}, Shape{1, 300, 4}, Shape{3, 256, 8}, Shape{2, 0, 2}}) {
      for (const std::int64_t kv_heads : {shape[2], shape[2] % 2 == 0 ? shape[2] / 2 : 1}) {
        INFO(way << ", " << to_string(shape) << ", " << kv_heads << " KV heads");
        const Tensor selected = selection(shape);
        const HeadLists expected = build_head_lists(selected, kv_heads);
        const HeadLists found = build_head_lists(selected.to(gpu), kv_heads);
        const Tensor offsets = found.offsets.to(kCpu), rows = found.rows.to(kCpu);
        CHECK(same_elements<std::int64_t>(offsets, expected.offsets, offsets.numel()));
        REQUIRE(rows.numel() >= expected.num_rows());
        CHECK(same_elements<std::int32_t>(rows, expected.rows, expected.num_rows()));
      }
    }
  });
  const Tensor all = full({1, 4, 3}, 1, DType::kUInt8, gpu);
  CHECK(build_head_lists(all, 3, 3).offsets.to(kCpu).data<std::int64_t>()[3] == 12);
  const HeadLists cut = build_head_lists(all, 3, 2);
  CHECK_THROWS_WITH(cuda::synchronize(),
                    Catch::Contains("build_head_lists: selected: expected at most 8 pairs, found 12"));
  CHECK(cut.offsets.to(kCpu).data<std::int64_t>()[3] == 8);
}

void check_bias_kernels_on_device() {
  const Device gpu = open_gpu();
  constexpr std::int64_t kRows = 37, kWidth = 5, kStride = 8;
  const Tensor bias = normal({kWidth}, 1).to(DType::kFloat32);
  const Tensor y = normal({kRows, kStride}, 2).to(DType::kFloat32);
  in_each_way([&](const std::string& way) {
    INFO(way);
    const Tensor found = y.to(gpu).clone(), sums = empty({kWidth}, DType::kFloat32, gpu);
    LinearKernels<Cuda, float>::add_bias(bias.to(gpu).data<float>(), found.data<float>(), {kRows, kWidth},
                                         kStride);
    LinearKernels<Cuda, float>::sum_rows(found.data<float>(), sums.data<float>(), {kRows, kWidth}, kStride);
    const Tensor expected = y.clone(), expected_sums = full({kWidth}, 0, DType::kFloat32);
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j)
        expected_sums.data<float>()[j] += expected.data<float>()[i * kStride + j] += bias.data<float>()[j];
    }
    CHECK(same_elements<float>(found.to(kCpu), expected, expected.numel()));
    check_close(sums.to(kCpu), expected_sums, 1e-4, "sums");
  });
}

void check_optimizer_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    check_adamw(DType::kFloat32);
    check_adamw(DType::kBFloat16);
    const std::vector<Tensor> grads = {normal({20000}, 1).to(DType::kFloat32),
                                       normal({33}, 2).to(DType::kBFloat16)};
    const std::vector<Tensor> on_gpu = {grads[0].to(gpu), grads[1].to(gpu)};
    CHECK(grad_norm(on_gpu) == Approx(grad_norm(grads)).epsilon(1e-12));
  });
}

TEST_CASE("device: tensors are filled, converted, added and copied", "[device]") {
  check_tensors_on_device();
}
TEST_CASE("device: indices out of range are reported by the next wait", "[device]") {
  check_indices_on_device();
}
TEST_CASE("device: head lists are those of the CPU", "[device]") {
  check_head_lists_on_device();
}
TEST_CASE("device: a bias is added to rows, and rows are summed", "[device]") {
  check_bias_kernels_on_device();
}
TEST_CASE("device: AdamW and the gradient norm agree with the CPU", "[device]") {
  check_optimizer_on_device();
}

}  // namespace moh::test
