#include <cstring>

#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/embedding/embedding_kernels.h"

namespace moh {

namespace {

/// The places of the ids, grouped by id and ascending within each: those of id v are
/// places[starts[v]] ... places[starts[v + 1] - 1]. A counting sort; starts has V + 1 elements.
void group_by_id(const std::int64_t* ids, EmbeddingSizes sizes, std::int64_t* starts, std::int64_t* places) {
  std::memset(starts, 0, static_cast<std::size_t>(sizes.num_rows + 1) * sizeof *starts);
  for (std::int64_t n = 0; n < sizes.num_ids; ++n) ++starts[ids[n]];
  std::int64_t end = 0;
  for (std::int64_t v = 0; v <= sizes.num_rows; ++v) starts[v] = end += starts[v];
  // From the back: each entry walks down from the end of its group to the start.
  for (std::int64_t n = sizes.num_ids - 1; n >= 0; --n) places[--starts[ids[n]]] = n;
}

}  // namespace

template <class Backend, class T>
void EmbeddingKernels<Backend, T>::forward(const T* table, const std::int64_t* ids, T* y,
                                           EmbeddingSizes sizes) {
  const std::int64_t width = sizes.width, grain = row_grain(sizes.num_ids, width);
  parallel_for(sizes.num_ids, grain, [=](std::int64_t begin, std::int64_t end) {
    const std::size_t row_bytes = static_cast<std::size_t>(width) * sizeof(T);
    for (std::int64_t n = begin; n < end; ++n) std::memcpy(y + n * width, table + ids[n] * width, row_bytes);
  });
}

// One thread owns a row of dtable and writes it once, so no two threads ever add to the same element.
template <class Backend, class T>
void EmbeddingKernels<Backend, T>::backward(const T* dy, const std::int64_t* ids, T* dtable,
                                            EmbeddingSizes sizes) {
  using A = Acc<T>;
  const std::int64_t width = sizes.width;
  const Scratch scratch(static_cast<std::size_t>(sizes.num_rows + 1 + sizes.num_ids) * sizeof(std::int64_t));
  std::int64_t* starts = scratch.as<std::int64_t>();
  std::int64_t* places = starts + sizes.num_rows + 1;
  group_by_id(ids, sizes, starts, places);
  parallel_for(sizes.num_rows, row_grain(sizes.num_rows, width), [=](std::int64_t begin, std::int64_t end) {
    const Scratch row(static_cast<std::size_t>(width) * sizeof(A));
    A* sum = row.as<A>();
    for (std::int64_t v = begin; v < end; ++v) {
      for (std::int64_t j = 0; j < width; ++j) sum[j] = A(0);
      for (std::int64_t k = starts[v]; k < starts[v + 1]; ++k) {
        const T* from = dy + places[k] * width;
#pragma omp simd
        for (std::int64_t j = 0; j < width; ++j) sum[j] += A(from[j]);
      }
      T* to = dtable + v * width;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) to[j] = sum[j];
    }
  });
}

template struct EmbeddingKernels<cpu::MOH_ISA, float>;
template struct EmbeddingKernels<cpu::MOH_ISA, bfloat16>;
template struct EmbeddingKernels<cpu::MOH_ISA, double>;

}  // namespace moh
