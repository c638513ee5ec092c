// Attention on a GPU whose multiprocessors have 100 KB of shared memory.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

#include "core/cuda/device.h"
#include "tests/cuda_sim/shared_memory_log.h"
#include "tests/ops/attention/reference.h"
#include "tests/ops/device_checks.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_cases.h"

using namespace moh;

TEST_CASE("sim: two blocks of attention share a multiprocessor with 100 KB", "[sim]") {
  constexpr std::size_t kMostOfBlock = 99 << 10, kMultiprocessor = 100 << 10, kSystem = 1 << 10;
  setenv("MOH_SIM_SHARED_BYTES", std::to_string(kMostOfBlock).c_str(), 1);
  test::open_gpu();
  if (cuda::limits().shared_bytes_per_block != kMostOfBlock) {
    std::cout << "moh test skipped: another test has opened the device\n";
    return;
  }
  for (const std::int64_t width : {64, 72, 80}) {
    INFO("heads of " << width);
    const test::AttentionSizes sizes{
        .batch = 1, .queries = 70, .keys = 300, .heads = 2, .kv_heads = 1, .head_dim = width};
    const test::AttentionInputs in = test::attention_inputs(sizes, -1);
    const auto run = [](const test::Inputs& x) {
      return test::Outputs{attention(x[0], x[1], x[2], {.causal = true})};
    };
    test::check_on_device({.name = "attention", .inputs = {in.q, in.k, in.v}, .run = run, .units = 4},
                          DType::kBFloat16, 0x1p-9);
    for (const char* kernel : {"attention_forward", "attention_backward_rows", "attention_backward_keys"}) {
      INFO(kernel);
      CHECK(sim::most_shared_bytes(kernel) > 0);
      CHECK(2 * (sim::most_shared_bytes(kernel) + kSystem) <= kMultiprocessor);
    }
  }
}
