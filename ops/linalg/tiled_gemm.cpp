#include "ops/linalg/tiled_gemm.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/cpu_caches.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "core/visit_cpu_isa.h"
#include "ops/run_tasks.h"

namespace moh {

namespace {

/// Number of parts that rows and columns of c are divided into; parts differ by at most one tile or panel.
struct GemmParts {
  std::int64_t rows, columns;
};

/// The begin of part `part` of `parts` of an extent that is divided at multiples of `unit`.
std::int64_t part_begin(std::int64_t extent, std::int64_t unit, std::int64_t part, std::int64_t parts) {
  return std::min(extent, num_chunks(extent, unit) * part / parts * unit);
}

/// A range of columns of c and of k.
struct GemmRange {
  std::int64_t column_begin, column_end, k_begin, k_end;

  std::int64_t columns() const { return column_end - column_begin; }
};

template <class Kernels>
std::vector<GemmTask> gemm_tasks(std::int64_t m, const GemmRange& range, const GemmParts& parts) {
  std::vector<GemmTask> tasks;
  const auto row = [&](std::int64_t i) { return part_begin(m, Kernels::kTile, i, parts.rows); };
  const auto column = [&](std::int64_t j) {
    return range.column_begin + part_begin(range.columns(), kGemmPanel, j, parts.columns);
  };
  for (std::int64_t i = 0; i < parts.rows; ++i) {
    for (std::int64_t j = 0; j < parts.columns; ++j)
      tasks.push_back({row(i), row(i + 1), column(j), column(j + 1), range.k_begin, range.k_end});
  }
  return tasks;
}

/// Extent of the largest part, in whole units.
std::int64_t most_in_part(std::int64_t extent, std::int64_t unit, std::int64_t parts) {
  return num_chunks(num_chunks(extent, unit), parts) * unit;
}

bool is_serial(const GemmShape& s) {
  constexpr double kSmall = 1 << 17;  // waking other threads would take longer
  return static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) < kSmall;
}

/// The costs of a task for each k beside its multiply-adds, in the time of multiply-adds (measured): per row
/// of a, and per column of b, whose panels come from a distant cache.
struct TaskCosts {
  std::int64_t row, column;
};

/// Rows whose block of the depth takes half of the second-level cache.
template <class Kernels>
std::int64_t rows_in_cache(const GemmShape& s) {
  const std::int64_t rows = l2_cache_bytes() / 2 / Kernels::packed_bytes(Kernels::depth_of_block(s));
  return std::max<std::int64_t>(rows / Kernels::kTile, 1) * Kernels::kTile;
}

/// The division of `columns` columns of c that gives the busiest thread the least work, in parts of at most
/// rows_in_cache() rows.
template <class Kernels>
GemmParts best_parts(const GemmShape& s, std::int64_t columns, const TaskCosts& costs) {
  const std::int64_t m = s.m, threads = num_threads(), tiles = num_chunks(m, Kernels::kTile),
                     panels = num_chunks(columns, kGemmPanel);
  const std::int64_t fewest = num_chunks(m, rows_in_cache<Kernels>(s));
  GemmParts best{fewest, 1};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t rows = fewest; rows <= std::min(tiles, fewest + 2 * threads); ++rows) {
    for (std::int64_t cuts = 1; cuts <= std::min(panels, num_chunks(2 * threads, rows)); ++cuts) {
      const std::int64_t height = most_in_part(m, Kernels::kTile, rows),
                         width = std::min(columns, most_in_part(columns, kGemmPanel, cuts));
      const std::int64_t work = height * width + costs.row * height + costs.column * width;
      const std::int64_t longest = work * num_chunks(rows * cuts, threads);
      if (longest < least) {
        least = longest;
        best = {rows, cuts};
      }
    }
  }
  return best;
}

/// The division of c for multiply_apart. The packed rows of a task stay in its caches.
template <class Kernels>
GemmParts parts_apart(const GemmShape& s) {
  if (is_serial(s)) return {1, 1};
  constexpr std::int64_t kPackTransposed = 24, kPack = 8;
  const std::int64_t row = s.transpose_a ? kPackTransposed : Kernels::packs_rows(s) ? kPack : 0;
  const std::int64_t column = s.transpose_b ? kPackTransposed : kPack;
  return best_parts<Kernels>(s, s.n, {row, column});
}

/// The division of `columns` columns of c for multiply_together. A block of a and a panel of b stay in L2
/// together.
template <class Kernels>
GemmParts parts_together(const GemmShape& s, std::int64_t columns) {
  constexpr std::int64_t kPack = 8, kReadPanel = 8;
  return best_parts<Kernels>(s, columns, {Kernels::packs_rows(s) ? kPack : 0, kReadPanel});
}

/// How much of b multiply_together packs at a time: blocks of the depth of as many columns as fit, or all of
/// k.
struct PackedExtent {
  std::int64_t columns, depth;
};
template <class Kernels>
PackedExtent packed_extent(const GemmShape& s) {
  constexpr std::int64_t kBytes = 4 << 20;
  const std::int64_t block = Kernels::kNeedsAllOfK ? s.k : Kernels::depth_of_block(s),
                     all = num_chunks(s.n, kGemmPanel) * kGemmPanel;
  const std::int64_t fitting =
      std::max(kGemmPanel, kBytes / Kernels::packed_bytes(block) / kGemmPanel * kGemmPanel);
  const std::int64_t columns = std::min(all, fitting);
  const std::int64_t blocks = std::max<std::int64_t>(kBytes / (columns * Kernels::packed_bytes(block)), 1);
  return {columns, std::min(s.k, blocks * block)};
}
template <class Kernels>
std::size_t packed_bytes(const PackedExtent& extent) {
  return static_cast<std::size_t>(extent.columns * Kernels::packed_bytes(extent.depth));
}

/// Bytes of scratch of a task of the largest part.
template <class Kernels>
std::size_t task_bytes(const GemmShape& s, std::int64_t columns, const GemmParts& parts, bool packs) {
  return Kernels::scratch_bytes(s, most_in_part(s.m, Kernels::kTile, parts.rows),
                                most_in_part(columns, kGemmPanel, parts.columns), packs);
}

/// Rows of c from which on it pays that all threads pack b together.
constexpr std::int64_t kManyRows = 48;

/// Whether each task packs its operands itself.
bool works_apart(const GemmShape& s) {
  return is_serial(s) || s.transpose_a || s.m <= kManyRows;
}

/// Matrix multiplication whose tasks pack their operands themselves.
template <class Kernels, class T, class C>
void multiply_apart(const GemmShape& s, const T* a, const T* b, const GemmResult<C>& c) {
  const GemmParts parts = parts_apart<Kernels>(s);
  run_tasks(gemm_tasks<Kernels>(s.m, {0, s.n, 0, s.k}, parts), is_serial(s),
            task_bytes<Kernels>(s, s.n, parts, /*packs=*/true),
            [&](const GemmTask& task, std::byte* scratch) {
              Kernels::multiply(s, a, b, c, task, nullptr, scratch);
            });
}

/// Matrix multiplication for many rows of a: all threads pack a range of b, then all multiply it.
template <class Kernels, class T, class C>
void multiply_together(const GemmShape& s, const T* a, const T* b, const GemmResult<C>& c) {
  const PackedExtent extent = packed_extent<Kernels>(s);
  const std::int64_t depth = Kernels::depth_of_block(s);
  const Scratch packed(packed_bytes<Kernels>(extent));
  for (std::int64_t column = 0; column < s.n; column += extent.columns) {
    const std::int64_t column_end = std::min(s.n, column + extent.columns);
    const std::int64_t panels = num_chunks(column_end - column, kGemmPanel);
    const GemmParts parts = parts_together<Kernels>(s, column_end - column);
    const std::size_t scratch = task_bytes<Kernels>(s, column_end - column, parts, /*packs=*/false);
    for (std::int64_t k = 0; k < s.k; k += extent.depth) {
      const std::int64_t k_end = std::min(s.k, k + extent.depth), blocks = num_chunks(k_end - k, depth);
      const PackedColumns columns{column, column_end, k, k_end, packed.as<std::byte>()};
      parallel_for(panels * blocks, 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i)
          Kernels::pack(s, b, columns, column + i / blocks * kGemmPanel, k + i % blocks * depth);
      });
      run_tasks(
          gemm_tasks<Kernels>(s.m, {column, column_end, k, k_end}, parts), /*serial=*/false, scratch,
          [&](const GemmTask& task, std::byte* own) { Kernels::multiply(s, a, b, c, task, &columns, own); });
    }
  }
}

/// Calls fn.template operator()<Kernels>() with the kernels of the current instruction set.
template <class T, class C, class Fn>
decltype(auto) visit_gemm_kernels(const Fn& fn) {
  const auto with = [&]<class Backend>() { return fn.template operator()<MatmulKernels<Backend, T, C>>(); };
  if constexpr (std::is_same_v<T, bfloat16>) {
    return visit_gemm_isa(with);
  } else {
    return visit_cpu_isa(with);
  }
}

/// A task of one matrix multiplication of a batch.
struct BatchTask {
  std::int64_t index;
  GemmTask task;
};

/// The division of each multiplication of a batch: by columns, where there are more threads than
/// multiplications; rows only as far as their packed block should stay in L2.
template <class Kernels>
GemmParts parts_in_batch(const GemmShape& s, std::int64_t count) {
  return {num_chunks(s.m, rows_in_cache<Kernels>(s)),
          std::min(num_chunks(s.n, kGemmPanel), num_chunks(std::int64_t{2} * num_threads(), count))};
}

/// Whether c^T = op(b)^T op(a)^T is faster: b is packed, at the cost of some hundred rows of c, while a is
/// read in place. So the smaller operand should be b. Where both are packed, in the gradients of weights,
/// columns of c are computed by whole vectors and packed faster than rows, so there should not be few of
/// them.
bool is_better_turned(const GemmShape& s) {
  constexpr std::int64_t kFewRows = 512, kFewColumns = 96;
  if (s.transpose_c || s.transpose_a == s.transpose_b) return false;
  if (s.transpose_a) return s.n <= kFewColumns && s.m >= 2 * s.n;
  return s.m <= kFewRows && s.n >= 2 * s.m && s.m >= kGemmPanel;
}
GemmShape turned(const GemmShape& s) {
  return {s.n, s.m, s.k, !s.transpose_b, !s.transpose_a, s.ldb, s.lda, s.ldc, true};
}

}  // namespace

template <class T, class C>
void tiled_gemm(const GemmShape& s, const T* a, const T* b, const GemmResult<C>& c) {
  if (is_better_turned(s)) return tiled_gemm<T, C>(turned(s), b, a, c);
  visit_gemm_kernels<T, C>([&]<class Kernels>() {
    if (works_apart(s)) {
      multiply_apart<Kernels>(s, a, b, c);
    } else {
      multiply_together<Kernels>(s, a, b, c);
    }
  });
}

template <class T, class C>
std::size_t tiled_gemm_scratch_bytes(const GemmShape& shape) {
  const GemmShape s = is_better_turned(shape) ? turned(shape) : shape;
  const auto threads = static_cast<std::size_t>(num_threads());
  return visit_gemm_kernels<T, C>([&]<class Kernels>() {
    if (works_apart(s)) return threads * task_bytes<Kernels>(s, s.n, parts_apart<Kernels>(s), /*packs=*/true);
    const PackedExtent extent = packed_extent<Kernels>(s);
    const std::int64_t columns = std::min(s.n, extent.columns);
    return packed_bytes<Kernels>(extent) +
           threads * task_bytes<Kernels>(s, columns, parts_together<Kernels>(s, columns), /*packs=*/false);
  });
}

template <class T>
void tiled_gemm_batch(const GemmShape& s, const GemmBatch& batch, const T* a, const T* b, T* c,
                      bool accumulate) {
  visit_gemm_kernels<T, T>([&]<class Kernels>() {
    const GemmParts parts = parts_in_batch<Kernels>(s, batch.count);
    std::vector<BatchTask> tasks;
    for (std::int64_t i = 0; i < batch.count; ++i) {
      for (const GemmTask& task : gemm_tasks<Kernels>(s.m, {0, s.n, 0, s.k}, parts))
        tasks.push_back({i, task});
    }
    run_tasks(tasks, /*serial=*/false, task_bytes<Kernels>(s, s.n, parts, /*packs=*/true),
              [&](const BatchTask& each, std::byte* scratch) {
                Kernels::multiply(s, a + each.index * batch.steps.a, b + each.index * batch.steps.b,
                                  {c + each.index * batch.steps.c, accumulate}, each.task, nullptr, scratch);
              });
  });
}

std::size_t tiled_gemm_batch_scratch_bytes(const GemmShape& s, const GemmBatch& batch) {
  return visit_gemm_kernels<float, float>([&]<class Kernels>() {
    return task_bytes<Kernels>(s, s.n, parts_in_batch<Kernels>(s, batch.count), /*packs=*/true) *
           static_cast<std::size_t>(num_threads());
  });
}

template void tiled_gemm_batch(const GemmShape&, const GemmBatch&, const float*, const float*, float*, bool);

template void tiled_gemm(const GemmShape&, const float*, const float*, const GemmResult<float>&);
template void tiled_gemm(const GemmShape&, const double*, const double*, const GemmResult<double>&);
template void tiled_gemm(const GemmShape&, const bfloat16*, const bfloat16*, const GemmResult<bfloat16>&);
template void tiled_gemm(const GemmShape&, const bfloat16*, const bfloat16*, const GemmResult<float>&);
template std::size_t tiled_gemm_scratch_bytes<float, float>(const GemmShape&);
template std::size_t tiled_gemm_scratch_bytes<double, double>(const GemmShape&);
template std::size_t tiled_gemm_scratch_bytes<bfloat16, bfloat16>(const GemmShape&);
template std::size_t tiled_gemm_scratch_bytes<bfloat16, float>(const GemmShape&);

}  // namespace moh
