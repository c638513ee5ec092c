#include <catch2/catch.hpp>
#include <limits>

#include "tests/ops/attention/aggregated_problem.h"
#include "tests/ops/device_checks.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"

// Aggregated attention on a GPU, in sizes that cross what its kernels cut the work into.

namespace moh::test {

using namespace aggregated;

namespace {

void check_both_types(const OpCase& op_case) {
  INFO(op_case.name);
  check_on_device(op_case, DType::kFloat32, 0x1p-24);
  check_on_device(op_case, DType::kBFloat16, 0x1p-9);
}

/// Keeps some keys only. In float32: rounded to bfloat16, other logits may be the largest.
void check_kept(const Sizes& s, double share, std::int64_t percent) {
  const Problem p = problem_of(s, share);
  const bool packed = s.window == 0;
  const OpCase op_case{
      .name = name_of(s) + " share " + std::to_string(share) + " kept " + std::to_string(percent),
      .inputs = packed ? packed_inputs(s, p) : p.inputs,
      .run =
          [=](const Inputs& x) {
            return Outputs{packed ? run_packed(x, p.selected, percent)
                                  : run_aggregated(s, x, p.selected, percent)};
          },
      .units = 64};
  INFO(op_case.name);
  check_on_device(op_case, DType::kFloat32, 0x1p-24);
}

void check_window(const Sizes& s, double share) {
  const Problem p = problem_of(s, share);
  check_both_types({.name = name_of(s) + " share " + std::to_string(share),
                    .inputs = p.inputs,
                    .run = [=](const Inputs& x) { return Outputs{run_aggregated(s, x, p.selected)}; },
                    .units = 64});
}

void check_packed(const Sizes& s, double share) {
  const Problem p = problem_of(s, share);
  check_both_types({.name = "packed " + name_of(s) + " share " + std::to_string(share),
                    .inputs = packed_inputs(s, p),
                    .run = [=](const Inputs& x) { return Outputs{run_packed(x, p.selected)}; },
                    .units = 64});
}

/// Contents of unselected queries, of their gates and of the gradients of their outputs reach nothing.
void check_unselected_are_not_read() {
  const Sizes s{1, 5, 6, 2, 24, 4, 3};
  const Problem clean = problem_of(s, 0.4);
  Problem poisoned = problem_of(s, 0.4);
  for (std::int64_t pair = 0; pair < clean.selected.numel(); ++pair) {
    if (clean.selected.data<std::uint8_t>()[pair] != 0) continue;
    poisoned.inputs[9].data<double>()[pair] = std::numeric_limits<double>::quiet_NaN();
    std::fill_n(poisoned.inputs[0].data<double>() + pair * s.d, s.d,
                std::numeric_limits<double>::quiet_NaN());
  }
  const auto on_gpu = [&](const Problem& p) {
    return run({.run = [&](const Inputs& x) { return Outputs{run_aggregated(s, x, p.selected)}; }},
               converted(p.inputs, DType::kFloat32), open_gpu());
  };
  in_each_way([&](const std::string& way) {
    INFO(way);
    CHECK(same_bits(on_gpu(clean), on_gpu(poisoned)));
  });
}

}  // namespace

void check_aggregated_on_device() {
  for (const double share : {-1.0, 0.0, 0.5, 1.0}) {
    // Rows past a strip, one and two to a lane; tokens past a chunk; keys past a tile and past the lanes.
    check_window({2, 13, 10, 1, 24, 49, 3}, share);
    check_window({1, 5, 14, 2, 20, 58, 3}, share);
  }
  check_window({3, 4, 5, 2, 24, 65, 5}, 0.5);
  // Heads that lanes share, of whole chunks and of others; one past a strip, a tile and the lanes of a block.
  check_window({2, 3, 6, 2, 48, 29, 3}, 0.5);
  check_window({1, 1, 17, 1, 61, 20, 3}, 0.7);
  check_window({1, 2, 3, 2, 72, 8, 3}, 0.5);
  check_window({1, 5, 1, 1, 256, 3, 1}, -1);
  // A window larger than the image.
  check_window({1, 3, 2, 1, 8, 2, 15}, 0.5);
  check_packed({2, 7, 7, 2, 24, 49, 0}, -1);
  check_packed({2, 7, 7, 2, 24, 49, 0}, 0.5);
  check_packed({1, 9, 9, 1, 12, 81, 0}, 0.6);
  check_unselected_are_not_read();
  // Words of bits that are whole and that are not; keys past a tile; heads that lanes share.
  check_kept({2, 13, 10, 1, 24, 49, 3}, 0.5, 75);
  check_kept({1, 5, 6, 2, 20, 87, 3}, -1, 10);
  check_kept({1, 3, 6, 2, 48, 29, 3}, 0.5, 75);
  check_kept({1, 2, 5, 1, 72, 11, 3}, -1, 50);
  check_kept({2, 7, 7, 2, 24, 49, 0}, 0.5, 75);
}

TEST_CASE("device: more strips than blocks that select keys", "[device]") {
  check_kept({1600, 1, 1, 1, 2, 3, 1}, -1, 50);
}

TEST_CASE("device: aggregated attention agrees with float64 on the CPU", "[device]") {
  check_aggregated_on_device();
}

}  // namespace moh::test
