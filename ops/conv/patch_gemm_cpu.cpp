#include "ops/conv/patch_gemm_kernels.h"

#include "core/cpu_caches.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "ops/conv/patches_cpu.h"
#include "ops/cpu/simd.h"
#include "ops/linalg/matmul_kernels.h"

namespace moh {
namespace {

inline std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
inline std::int64_t max_of(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

/// `count` elements rounded up to whole cache lines, of any type.
inline std::int64_t whole_lines(std::int64_t count) {
  return (count + 31) / 32 * 32;
}

/// Rows of patches begin a cache line further apart than their values need: multiples of 4 KiB would fall
/// into the same sets of a cache.
constexpr std::int64_t kPad = 16;

/// Sizes of the matrix multiplications of a group, of patches of T.
template <class T>
struct PatchGemm {
  std::int64_t values, outputs, pixels;  ///< of a patch; of a group; in a block

  explicit PatchGemm(const ConvShape& s)
      : values(s.taps() * s.group_channels()), outputs(s.group_outputs()), pixels(0) {
    // As many rows as share a reading of the weights: their block of the depth takes half of L2 at most, and
    // the patches themselves 4 MiB; fewer if there would not be some blocks for each thread. The bits of the
    // result do not depend on it.
    constexpr std::int64_t kFewest = 48, kMost = 480, kDepth = 512, kBytes = std::int64_t{4} << 20;
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t in_l2 = l2_cache_bytes() / 2 / (min_of(row(), kDepth) * kSize);
    const std::int64_t fitting = min_of(min_of(in_l2, kBytes / (row() * kSize)), kMost);
    const std::int64_t threads = num_threads();
    const std::int64_t share = threads == 1 ? fitting : s.output_pixels() / (4 * threads);
    const std::int64_t wanted = min_of(max_of(fitting, kFewest), max_of(share, kGemmTile));
    pixels = (wanted + kGemmTile - 1) / kGemmTile * kGemmTile;
  }

  std::int64_t row() const { return (values + 1) / 2 * 2 + kPad; }  // even, for pairs
  GemmShape shape(const ConvShape& s, std::int64_t rows) const {
    return {rows, outputs, values, false, true, row(), values, s.outputs};
  }
  /// Elements of a block's patches, in whole cache lines.
  std::int64_t patch_elements() const { return whole_lines(pixels * row()); }
};

/// Bytes of the packed weights of a group.
template <class Backend, class T>
std::size_t packed_bytes(const PatchGemm<T>& sizes) {
  const std::int64_t columns = (sizes.outputs + kGemmPanel - 1) / kGemmPanel * kGemmPanel;
  return static_cast<std::size_t>(columns * MatmulKernels<Backend, T>::packed_bytes(sizes.values));
}
/// Bytes that a task has for itself: patches, and the multiplication's scratch.
template <class Backend, class T>
std::size_t task_bytes(const ConvShape& s, const PatchGemm<T>& sizes) {
  const std::size_t gemm = MatmulKernels<Backend, T>::scratch_bytes(
      sizes.shape(s, sizes.pixels), sizes.pixels, sizes.outputs, /*packs=*/false);
  return static_cast<std::size_t>(sizes.patch_elements()) * sizeof(T) + (gemm + 63) / 64 * 64;
}

/// Packs the weights of all groups.
template <class Backend, class T>
void pack_weights(const ConvShape& s, const PatchGemm<T>& sizes, const T* w, std::byte* packed) {
  using Kernels = MatmulKernels<Backend, T>;
  const GemmShape shape = sizes.shape(s, sizes.pixels);
  const std::int64_t depth = Kernels::depth_of_block(shape), blocks = num_chunks(sizes.values, depth),
                     panels = num_chunks(sizes.outputs, kGemmPanel);
  parallel_for(s.groups * panels * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / blocks / panels;
      const PackedColumns columns{0, sizes.outputs, 0, sizes.values,
                                  packed + static_cast<std::size_t>(group) * packed_bytes<Backend>(sizes)};
      Kernels::pack(shape, w + group * sizes.outputs * sizes.values, columns,
                    i / blocks % panels * kGemmPanel, i % blocks * depth);
    }
  });
}

}  // namespace

template <class Backend, class T>
std::size_t PatchGemmKernels<Backend, T>::scratch_bytes(const ConvShape& s) {
  const PatchGemm<T> sizes(s);
  return static_cast<std::size_t>(s.groups) * packed_bytes<Backend>(sizes) +
         task_bytes<Backend>(s, sizes) * static_cast<std::size_t>(num_threads());
}

template <class Backend, class T>
void PatchGemmKernels<Backend, T>::run(const T* x, const T* w, const T* b, T* y, const ConvShape& s) {
  const PatchGemm<T> sizes(s);
  const Scratch scratch(scratch_bytes(s));
  auto* const packed = scratch.as<std::byte>();
  const std::size_t group_bytes = packed_bytes<Backend>(sizes), bytes = task_bytes<Backend>(s, sizes);
  std::byte* const tasks = packed + static_cast<std::size_t>(s.groups) * group_bytes;
  pack_weights<Backend>(s, sizes, w, packed);
  parallel_for(s.output_pixels(), sizes.pixels, [&](std::int64_t begin, std::int64_t end) {
    std::byte* const own = tasks + bytes * static_cast<std::size_t>(thread_index());
    T* const patches = reinterpret_cast<T*>(own);
    auto* const gemm = reinterpret_cast<std::byte*>(patches + sizes.patch_elements());
    const GemmShape shape = sizes.shape(s, end - begin);
    for (std::int64_t g = 0; g < s.groups; ++g) {
      gather_patches(x, patches, sizes.row(), s, begin, end, g * s.group_channels());
      const std::int64_t first = g * sizes.outputs;
      const GemmResult<T> result{y + begin * s.outputs + first, /*accumulate=*/false,
                                 b != nullptr ? b + first : nullptr};
      const PackedColumns columns{0, sizes.outputs, 0, sizes.values,
                                  packed + static_cast<std::size_t>(g) * group_bytes};
      MatmulKernels<Backend, T>::multiply(shape, patches, nullptr, result,
                                          {0, end - begin, 0, sizes.outputs, 0, sizes.values}, &columns,
                                          gemm);
    }
  });
}

MOH_MATRIX_KERNELS(PatchGemmKernels)

}  // namespace moh
