#include "ops/device/async_copy.h"
#include "ops/device/atomic.h"
#include "ops/device/block.h"
#include "ops/device/math.h"
#include "ops/device/mma.h"
#include "ops/device/warp.h"
#include "tests/ops/primitives.h"

namespace moh::test {

namespace {

constexpr int kBlock = 128, kHalfBlock = 64;

MOH_KERNEL(device::kWarp)
void load_matrices_kernel(const bfloat16* matrices, bool transposed, std::uint32_t* registers) {
  auto* const shared = device::shared_memory<bfloat16>();
  const int lane = device::thread_x();
  for (int i = lane; i < 256; i += device::kWarp) shared[i] = matrices[i];
  device::sync_warp();
  std::uint32_t own[4];
  if (transposed) {
    device::load_matrices_transposed(own, shared + lane * 8);
  } else {
    device::load_matrices(own, shared + lane * 8);
  }
  for (int m = 0; m < 4; ++m) registers[m * device::kWarp + lane] = own[m];
}

MOH_KERNEL(device::kWarp)
void multiply_kernel(const bfloat16* a, const bfloat16* b, bool b_is_transposed, float* c) {
  auto* const shared = device::shared_memory<bfloat16>();
  const int lane = device::thread_x();
  for (int i = lane; i < 256; i += device::kWarp) shared[i] = a[i];
  for (int i = lane; i < 128; i += device::kWarp) shared[256 + i] = b[i];
  device::sync_warp();
  std::uint32_t left[4], right[4];
  device::load_matrices(left, shared + lane % 16 * 16 + lane / 16 * 8);
  if (b_is_transposed) {
    device::load_matrices(right, shared + 256 + lane % 8 * 16 + lane / 8 % 2 * 8);
  } else {
    device::load_matrices_transposed(right, shared + 256 + lane % 16 * 8);
  }
  float sum[4] = {};
  device::multiply_add(sum, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}

MOH_KERNEL(kBlock) void copies_kernel(const float* from, float* to) {
  auto* const shared = device::shared_memory<float>();
  const int first = 4 * device::thread_x();  // kCopied elements, 16 bytes for each thread
  static_assert(kCopied == 4 * kBlock);
  device::copy_async_16(shared + first, from + first, true);
  device::commit_copies();
  const bool real = device::thread_x() % 2 == 0;
  device::copy_async_16(shared + kCopied + first, from + kCopied + first, real);
  device::commit_copies();
  const auto write = [&](int half) {
    device::sync_block();
    for (int i = device::thread_x(); i < kCopied; i += kBlock)
      to[half * kCopied + i] = shared[half * kCopied + i];
  };
  device::wait_copies<1>();
  write(0);
  device::wait_copies<0>();
  write(1);
}

struct Math {
  const float* x;
  float* powers;
  std::uint32_t* pairs;
  MOH_DEVICE void operator()(std::int64_t i) const {
    powers[i] = device::exp2_fast(x[i]);
    pairs[i] = device::pack_bfloat16(x[i], -x[i]);
  }
};

MOH_KERNEL(device::kWarp) void warp_kernel(std::int32_t* results) {
  const int lane = device::thread_x();
  const std::int32_t own = 3 * lane + 1;
  results[lane] = device::shuffle(own, (5 * lane + 2) % device::kWarp);
  results[device::kWarp + lane] = device::shuffle_xor(own, 5);
  results[2 * device::kWarp + lane] = static_cast<std::int32_t>(device::ballot(lane % 3 == 0));
}

MOH_KERNEL(kHalfBlock) void blocks_kernel(std::int32_t* counters) {
  const int own = static_cast<int>(device::block_x());
  device::atomic_add(counters, 1);
  if (device::thread_x() == 0) device::wait_for(counters + 2, own);
  device::sync_threads(1, kHalfBlock);
  // Not by the thread that waited: the barrier has to pass on what that one saw.
  if (device::thread_x() == kHalfBlock - 1) counters[1] = (counters[1] * 2 + own) % (1 << 16);
  device::sync_block();
  if (device::thread_x() == 0) device::release(counters + 2, own + 1);
}

MOH_KERNEL(kBlock) void reverse_kernel(const float* from, float* to, int count) {
  auto* const shared = device::shared_memory<float>();
  for (int i = device::thread_x(); i < count; i += kBlock) shared[i] = from[i];
  device::sync_block();
  for (int i = device::thread_x(); i < count; i += kBlock) to[i] = shared[count - 1 - i];
}

}  // namespace

void launch_load_matrices(const bfloat16* matrices, bool transposed, std::uint32_t* registers) {
  cuda::launch("test_load_matrices", load_matrices_kernel,
               {.threads = device::kWarp, .shared_bytes = 256 * sizeof(bfloat16)}, matrices, transposed,
               registers);
}

void launch_multiply(const bfloat16* a, const bfloat16* b, bool b_is_transposed, float* c) {
  cuda::launch("test_multiply", multiply_kernel,
               {.threads = device::kWarp, .shared_bytes = 384 * sizeof(bfloat16)}, a, b, b_is_transposed, c);
}

void launch_copies(const float* from, float* to) {
  cuda::launch("test_copies", copies_kernel, {.threads = kBlock, .shared_bytes = 2 * kCopied * sizeof(float)},
               from, to);
}

void launch_math(const float* x, int count, float* powers, std::uint32_t* pairs) {
  cuda::launch_each("test_math", count, Math{x, powers, pairs});
}

void launch_warp(std::int32_t* results) {
  cuda::launch("test_warp", warp_kernel, {.threads = device::kWarp}, results);
}

void launch_blocks(int blocks, std::int32_t* counters) {
  cuda::launch("test_blocks", blocks_kernel, {.blocks_x = blocks, .threads = kHalfBlock}, counters);
}

void launch_reverse(const float* from, float* to, int count) {
  cuda::launch("test_reverse", reverse_kernel,
               {.threads = kBlock, .shared_bytes = static_cast<std::size_t>(count) * sizeof(float)}, from, to,
               count);
}

}  // namespace moh::test
