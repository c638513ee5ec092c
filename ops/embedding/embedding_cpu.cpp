#include <algorithm>
#include <cstring>

#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/embedding/embedding_kernels.h"
#include "ops/embedding/embedding_workspace.h"

namespace moh {

namespace {

/// Groups the positions of ids by id, ascending within each: those of id v are
/// places[starts[v]] ... places[starts[v + 1] - 1]. A counting sort; starts has V + 1 elements.
void group_by_id(const std::int64_t* ids, EmbeddingSizes sizes, std::int64_t* starts, std::int64_t* places) {
  std::memset(starts, 0, static_cast<std::size_t>(sizes.num_rows + 1) * sizeof *starts);
  for (std::int64_t n = 0; n < sizes.num_ids; ++n) ++starts[ids[n]];
  std::int64_t end = 0;
  for (std::int64_t v = 0; v <= sizes.num_rows; ++v) starts[v] = end += starts[v];
  // Backwards: starts[v] counts down from the end of its group to the begin, which keeps positions ascending.
  for (std::int64_t n = sizes.num_ids - 1; n >= 0; --n) places[--starts[ids[n]]] = n;
}

template <class A>
void zero_absent_rows(const std::int64_t* starts, EmbeddingSizes sizes, A* dtable) {
  const std::int64_t width = sizes.width;
  parallel_for(sizes.num_rows, row_grain(sizes.num_rows, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v) {
      if (starts[v] < starts[v + 1]) continue;
      for (std::int64_t j = 0; j < width; ++j) dtable[v * width + j] = A(0);
    }
  });
}

/// sum[j] = the sum of from[places[k] * width + j] over k in [begin, end).
template <class A, class T>
void sum_rows(const T* from, const std::int64_t* places, std::int64_t begin, std::int64_t end,
              std::int64_t width, A* sum) {
  for (std::int64_t j = 0; j < width; ++j) sum[j] = A(0);
  for (std::int64_t k = begin; k < end; ++k) {
    const T* row = from + places[k] * width;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) sum[j] += A(row[j]);
  }
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

// Chunks divide the sorted positions, not the rows of the table, since a few ids may have most of the
// positions. A run of equal ids within a chunk gives a row of dtable, written by one thread; a run across
// chunks gives partial sums, at most two per chunk, which are added in the order of the chunks.
template <class Backend, class T>
void EmbeddingKernels<Backend, T>::backward(const T* dy, const std::int64_t* ids, Acc<T>* dtable,
                                            EmbeddingSizes sizes) {
  using A = Acc<T>;
  const std::int64_t width = sizes.width, count = sizes.num_ids, grain = row_grain(count, width);
  const Scratch scratch(group_by_id_bytes(sizes));
  std::int64_t* starts = scratch.as<std::int64_t>();
  std::int64_t* places = starts + sizes.num_rows + 1;
  group_by_id(ids, sizes, starts, places);
  zero_absent_rows(starts, sizes, dtable);
  // Per chunk: the partial sum of a run that began earlier, that of a run that continues, and
  // a temporary row.
  const Scratch sums(run_sums_bytes<A>(sizes));
  A* const parts = sums.as<A>();
  const auto finish = [=](std::int64_t id, const A* sum) {
    A* to = dtable + id * width;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) to[j] = sum[j];
  };
  parallel_for(count, grain, [=](std::int64_t begin, std::int64_t end) {
    A* const own = parts + begin / grain * 3 * width;
    for (std::int64_t k = begin; k < end;) {
      const std::int64_t id = ids[places[k]], past = std::min(starts[id + 1], end);
      const bool earlier = starts[id] < begin;
      const bool goes_on = starts[id + 1] > end;
      A* const sum = own + (earlier ? 0 : goes_on ? 1 : 2) * width;
      sum_rows(dy, places, k, past, width, sum);
      if (!earlier && !goes_on) finish(id, sum);
      k = past;
    }
  });
  for (std::int64_t begin = 0; begin + grain < count; begin += grain) {
    const std::int64_t end = begin + grain, id = ids[places[end - 1]];
    if (starts[id] < begin || starts[id + 1] <= end) continue;
    A* const sum = parts + (begin / grain * 3 + 1) * width;
    for (std::int64_t chunk = end / grain; chunk * grain < starts[id + 1]; ++chunk) {
      for (std::int64_t j = 0; j < width; ++j) sum[j] += parts[chunk * 3 * width + j];
    }
    finish(id, sum);
  }
}

template struct EmbeddingKernels<cpu::MOH_ISA, float>;
template struct EmbeddingKernels<cpu::MOH_ISA, bfloat16>;
template struct EmbeddingKernels<cpu::MOH_ISA, double>;

}  // namespace moh
