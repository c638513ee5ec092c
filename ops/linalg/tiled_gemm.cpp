#include "ops/linalg/tiled_gemm.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "ops/run_tasks.h"

namespace moh {

namespace {

/// Rows of c below which tasks are not divided further.
constexpr std::int64_t kLeastRows = 48;

/// Number of parts that rows and columns of c are divided into; parts differ by at most one tile or panel.
struct GemmParts {
  std::int64_t rows, columns;
};
/// The division of `columns` columns of c for multiply_together. A block of a and a panel of b stay in L2
/// together; each thread gets the same number of blocks.
GemmParts parts_together(std::int64_t m, std::int64_t columns) {
  constexpr std::int64_t kRows = 192;
  const std::int64_t threads = num_threads();
  const std::int64_t parts = num_chunks(num_chunks(m, kRows), threads) * threads;
  const std::int64_t rows = std::min(parts, num_chunks(m, kLeastRows));
  return {rows, std::min(num_chunks(threads, rows), num_chunks(columns, kGemmPanel))};
}

/// The begin of part `part` of `parts` of an extent that is divided at multiples of `unit`.
std::int64_t part_begin(std::int64_t extent, std::int64_t unit, std::int64_t part, std::int64_t parts) {
  return std::min(extent, num_chunks(extent, unit) * part / parts * unit);
}

std::vector<GemmTask> gemm_tasks(std::int64_t m, std::int64_t column_begin, std::int64_t columns,
                                 const GemmParts& parts) {
  std::vector<GemmTask> tasks;
  const auto row = [&](std::int64_t i) { return part_begin(m, kGemmTile, i, parts.rows); };
  const auto column = [&](std::int64_t j) {
    return column_begin + part_begin(columns, kGemmPanel, j, parts.columns);
  };
  for (std::int64_t i = 0; i < parts.rows; ++i) {
    for (std::int64_t j = 0; j < parts.columns; ++j)
      tasks.push_back({row(i), row(i + 1), column(j), column(j + 1)});
  }
  return tasks;
}

/// Rows of the largest task.
std::int64_t most_rows(std::int64_t m, const GemmParts& parts) {
  return num_chunks(num_chunks(m, kGemmTile), parts.rows) * kGemmTile;
}

bool is_serial(const GemmShape& s) {
  constexpr double kSmall = 1 << 17;  // waking other threads would take longer
  return static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) < kSmall;
}

/// The division of c for multiply_apart: into one part per thread, or a multiple, so that the busiest thread
/// has the least work. The packed part of a transposed a (all rows of a task by a block of the depth) should
/// stay in the caches.
GemmParts parts_apart(const GemmShape& s) {
  if (is_serial(s)) return {1, 1};
  constexpr std::int64_t kRows = 512;
  constexpr std::int64_t kCopy = 18;  // cost of packing an element, in multiply-adds
  const std::int64_t threads = num_threads(), panels = num_chunks(s.n, kGemmPanel);
  const std::int64_t fewest = num_chunks(s.m, kRows), most = num_chunks(s.m, kLeastRows);
  GemmParts best{fewest, 1};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t rows = fewest; rows <= std::min(most, fewest + threads); ++rows) {
    for (std::int64_t columns = 1; columns <= std::min(panels, num_chunks(threads, rows)); ++columns) {
      const std::int64_t m = num_chunks(s.m, rows), n = num_chunks(panels, columns) * kGemmPanel;
      const std::int64_t work = m * n + kCopy * (n + (s.transpose_a ? m : 0));
      const std::int64_t longest = work * num_chunks(rows * columns, threads);
      if (longest < least) {
        least = longest;
        best = {rows, columns};
      }
    }
  }
  return best;
}

/// Number and bytes of the panels that multiply_together packs at a time.
struct PackedPanels {
  std::int64_t most, bytes;
};
template <class Kernels, class T>
PackedPanels packed_panels(const GemmShape& s) {
  constexpr std::int64_t kBytes = 4 << 20;
  const std::int64_t panel = Kernels::panel_size(s) * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t most = std::clamp<std::int64_t>(kBytes / panel, 1, num_chunks(s.n, kGemmPanel));
  return {most, most * panel};
}

/// Whether each task packs its operands itself.
bool works_apart(const GemmShape& s) {
  return is_serial(s) || s.transpose_a || s.m <= kLeastRows;
}

/// Matrix multiplication whose tasks pack their operands themselves.
template <class Kernels, class T>
void multiply_apart(const GemmShape& s, const T* a, const T* b, T* c, bool accumulate) {
  const GemmParts parts = parts_apart(s);
  run_tasks(gemm_tasks(s.m, 0, s.n, parts), is_serial(s),
            Kernels::scratch_bytes(s, most_rows(s.m, parts), /*packs=*/true),
            [&](const GemmTask& task, std::byte* scratch) {
              Kernels::multiply(s, a, b, c, accumulate, task, nullptr, scratch);
            });
}

/// Matrix multiplication for many rows of a, read in place: all threads pack b, some columns at a time, then
/// all threads multiply.
template <class Kernels, class T>
void multiply_together(const GemmShape& s, const T* a, const T* b, T* c, bool accumulate) {
  const std::int64_t blocks = Kernels::depth_blocks(s);
  const PackedPanels packing = packed_panels<Kernels, T>(s);
  const Scratch packed(static_cast<std::size_t>(packing.bytes));
  for (std::int64_t begin = 0; begin < s.n; begin += packing.most * kGemmPanel) {
    const std::int64_t end = std::min(s.n, begin + packing.most * kGemmPanel);
    const PackedColumns<T> columns{begin, end, packed.as<T>()};
    const std::int64_t panels = num_chunks(end - begin, kGemmPanel);
    parallel_for(panels * blocks, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) Kernels::pack(s, b, columns, i / blocks, i % blocks);
    });
    const GemmParts parts = parts_together(s.m, end - begin);
    run_tasks(gemm_tasks(s.m, begin, end - begin, parts), /*serial=*/false,
              Kernels::scratch_bytes(s, most_rows(s.m, parts), /*packs=*/false),
              [&](const GemmTask& task, std::byte* scratch) {
                Kernels::multiply(s, a, b, c, accumulate, task, &columns, scratch);
              });
  }
}

/// Whether c^T = op(b)^T op(a)^T is faster: b is packed, at the cost of some hundred rows of c, while a is
/// read in place. So the smaller operand should be b.
bool is_better_turned(const GemmShape& s) {
  constexpr std::int64_t kFewRows = 512;
  return !s.transpose_c && !s.transpose_a && s.transpose_b && s.m <= kFewRows && s.n >= 2 * s.m &&
         s.m >= kGemmPanel;
}
GemmShape turned(const GemmShape& s) {
  return {s.n, s.m, s.k, false, true, s.ldb, s.lda, s.ldc, true};
}

}  // namespace

template <class T>
void tiled_gemm(const GemmShape& s, const T* a, const T* b, T* c, bool accumulate) {
  if (is_better_turned(s)) return tiled_gemm<T>(turned(s), b, a, c, accumulate);
  visit_cpu_isa([&]<class Backend>() {
    using Kernels = MatmulKernels<Backend, T>;
    if (works_apart(s)) {
      multiply_apart<Kernels>(s, a, b, c, accumulate);
    } else {
      multiply_together<Kernels>(s, a, b, c, accumulate);
    }
  });
}

std::size_t tiled_gemm_scratch_bytes(const GemmShape& shape) {
  const GemmShape s = is_better_turned(shape) ? turned(shape) : shape;
  const bool apart = works_apart(s);
  const std::int64_t rows = most_rows(s.m, apart ? parts_apart(s) : parts_together(s.m, s.n));
  std::size_t bytes = 0;
  visit_cpu_isa([&]<class Backend>() {
    using Kernels = MatmulKernels<Backend, float>;
    bytes = Kernels::scratch_bytes(s, rows, /*packs=*/apart) * static_cast<std::size_t>(num_threads());
    if (!apart) bytes += static_cast<std::size_t>(packed_panels<Kernels, float>(s).bytes);
  });
  return bytes;
}

template void tiled_gemm<float>(const GemmShape&, const float*, const float*, float*, bool);
template void tiled_gemm<double>(const GemmShape&, const double*, const double*, double*, bool);

}  // namespace moh
