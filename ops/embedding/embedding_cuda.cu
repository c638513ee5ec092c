#include "ops/cuda/rows.h"
#include "ops/embedding/embedding_kernels.h"
#include "ops/embedding/sort_ids_cuda.h"

// The gradient reads each row of dy once and writes the rows of the table: it should be bound by memory
// bandwidth whatever the ids are. With a block per row of the table, the most frequent id would dominate
// (15% of the bytes of a text are spaces), since its rows are added one after the other. So the work is
// divided by positions: the ids are sorted, and each block gets a chunk of equally many sorted positions. It
// sums each run of equal ids in the order of their positions, with the loads of eight rows in flight. A run
// that ends in the chunk where it begins gives a row of dtable; one that continues gives a partial sum in
// each chunk, at most two per chunk, and a second kernel adds the partial sums of each such run in the order
// of the chunks.
//
// The longest chain of additions is that of a single id: L positions of a chunk, then count / L partial
// sums. L is about half the square root of the count, so that both stay short and there are blocks for
// every multiprocessor: 64 for 16384 ids, which makes 256 chunks. Partial sums take 2 count / L rows of
// float32, there 1/16 of the bytes of dy in bfloat16. Sorting takes three to nine launches
// (sort_ids_cuda.cu) and few bytes.
//
// dtable is zeroed first, as most rows of a large vocabulary do not occur in a batch. Those that do are
// written twice: at most as many additional bytes as dy has.
//
// The order of all sums depends on the ids alone, and the launches do not depend on the values of ids, so
// that they can be captured in a graph.

namespace moh {

namespace {

/// One block per id.
template <class T>
MOH_KERNEL(kMostRowThreads)
void embedding_kernel(RowAccess<const T> table, const std::int64_t* ids, RowAccess<T> y) {
  const std::int64_t i = device::block_x();
  const RowAccess<const T> from = table.at(ids[i]);
  each_piece<T>(table.width, [&](std::int64_t first) {
    float values[Pack<T>::kCount];
    from.load(first, values);
    y.at(i).store(first, values);
  });
}

/// The sorted ids, divided into chunks.
struct Chunks {
  IdPlaces sorted;
  std::int64_t count, length;  ///< of ids in all, of a chunk; the last chunk may be shorter
};

/// About half the square root of the count, a power of two.
std::int64_t chunk_length(std::int64_t count) {
  constexpr std::int64_t kLeast = 16, kMost = 1024;  // 16 KiB of shared memory
  std::int64_t length = kLeast;
  while (length < kMost && 16 * length * length <= count) length *= 2;
  return length;
}

/// partials [chunks, 2, width] in float32: per chunk, the sum of its part of a run that began earlier, and
/// that of a run that begins in it and continues in the next.
enum Part { kEarlierRun, kNewRun, kParts };

/// Loads the piece at `first` of rows places[0], places[1], ... of dy, all in flight at once; past `count`,
/// the last row is loaded again.
template <class T, int kRows>
MOH_DEVICE void load_rows(const RowAccess<const T>& dy, const std::int64_t* places, std::int64_t count,
                          std::int64_t first, Pack<T> (&rows)[kRows]) {
  const auto row = [&](int u) { return dy.at(places[u < count ? u : count - 1]).row + first; };
  if (dy.aligned) {
    MOH_UNROLL for (int u = 0; u < kRows; ++u) rows[u] = *reinterpret_cast<const Pack<T>*>(row(u));
  } else {
    MOH_UNROLL for (int u = 0; u < kRows; ++u) {
      const T* const from = row(u);
      for (int j = 0; j < Pack<T>::kCount; ++j)
        rows[u].values[j] = first + j < dy.width ? from[j] : static_cast<T>(0.0F);
    }
  }
}

/// Stores the piece at `first` of a row in float32, in as many pieces as it takes there.
template <int kPack>
MOH_DEVICE void store_sums(const RowAccess<float>& to, std::int64_t first, const float (&sums)[kPack]) {
  constexpr int kFloats = Pack<float>::kCount;
  MOH_UNROLL for (int begin = 0; begin < kPack; begin += kFloats) {
    if (first + begin >= to.width) return;
    float piece[kFloats];
    for (int j = 0; j < kFloats; ++j) piece[j] = sums[begin + j];
    to.store(first + begin, piece);
  }
}

/// Sums the runs of a chunk. Grid: x is the chunk, y splits wide rows; each thread sums one piece
/// of the rows.
template <class T>
MOH_KERNEL(kMostRowThreads)
void sum_runs_kernel(Chunks chunks, RowAccess<const T> dy, float* partials, RowAccess<float> dtable) {
  constexpr int kPack = Pack<T>::kCount, kInFlight = 8;
  const std::int64_t begin = device::block_x() * chunks.length, left = chunks.count - begin;
  const std::int64_t size = left < chunks.length ? left : chunks.length;
  auto *const ids = device::shared_memory<std::int64_t>(), *const places = ids + chunks.length;
  for (std::int64_t k = device::thread_x(); k < size; k += device::block_threads()) {
    ids[k] = chunks.sorted.ids[begin + k];
    places[k] = chunks.sorted.places[begin + k];
  }
  device::sync_block();
  const std::int64_t first = (device::block_y() * device::block_threads() + device::thread_x()) * kPack;
  if (first >= dy.width) return;

  const auto leave = [&](Part part, const float(&sum)[kPack]) {
    float* const to = partials + (device::block_x() * kParts + part) * dy.width;
    for (int j = 0; j < kPack; ++j) {
      if (first + j < dy.width) to[first + j] = sum[j];
    }
  };
  bool earlier = begin > 0 && chunks.sorted.ids[begin - 1] == ids[0];  // the run began before this chunk
  float sum[kPack] = {};
  for (std::int64_t k = 0; k < size; k += kInFlight) {
    Pack<T> rows[kInFlight];
    load_rows(dy, places + k, size - k, first, rows);
    MOH_UNROLL for (int u = 0; u < kInFlight; ++u) {
      if (k + u >= size) break;
      if (k + u > 0 && ids[k + u] != ids[k + u - 1]) {
        if (earlier) {
          leave(kEarlierRun, sum);
        } else {
          store_sums(dtable.at(ids[k + u - 1]), first, sum);
        }
        earlier = false;
        for (int j = 0; j < kPack; ++j) sum[j] = 0;
      }
      for (int j = 0; j < kPack; ++j) sum[j] += static_cast<float>(rows[u].values[j]);
    }
  }
  const bool goes_on = left > size && chunks.sorted.ids[begin + size] == ids[size - 1];
  if (earlier || goes_on) {
    leave(earlier ? kEarlierRun : kNewRun, sum);
  } else {
    store_sums(dtable.at(ids[size - 1]), first, sum);
  }
}

/// The last chunk that begins with `id`, of which chunk `first` is one.
MOH_DEVICE std::int64_t last_chunk_of(const Chunks& chunks, std::int64_t id, std::int64_t first) {
  std::int64_t last = first, past = (chunks.count + chunks.length - 1) / chunks.length;
  while (past - last > 1) {
    const std::int64_t middle = (last + past) / 2;
    (chunks.sorted.ids[middle * chunks.length] == id ? last : past) = middle;
  }
  return last;
}

constexpr int kJoinThreads = 128;

/// Sums the partial sums of the run that begins in a chunk and continues in the next, if there is one. Grid:
/// x is the chunk, without the last; y splits the columns.
MOH_KERNEL(kJoinThreads)
void join_runs_kernel(Chunks chunks, const float* partials, std::int64_t width, float* dtable) {
  constexpr int kInFlight = 16;
  const std::int64_t chunk = device::block_x(), begin = chunk * chunks.length, next = begin + chunks.length;
  const std::int64_t j = device::block_y() * kJoinThreads + device::thread_x();
  const std::int64_t *ids = chunks.sorted.ids, id = ids[next];
  if (j >= width || ids[next - 1] != id || (begin > 0 && ids[begin - 1] == id)) return;
  const std::int64_t parts = last_chunk_of(chunks, id, chunk + 1) - chunk;
  const std::int64_t stride = kParts * width;
  float sum = partials[chunk * stride + kNewRun * width + j];
  const float* const from = partials + (chunk + 1) * stride + kEarlierRun * width + j;
  for (std::int64_t i = 0; i < parts; i += kInFlight) {
    float read[kInFlight];
    MOH_UNROLL for (int u = 0; u < kInFlight; ++u) read[u] = i + u < parts ? from[(i + u) * stride] : 0.0F;
    MOH_UNROLL for (int u = 0; u < kInFlight; ++u) sum += read[u];
  }
  dtable[id * width + j] = sum;
}

}  // namespace

template <class Backend, class T>
void EmbeddingKernels<Backend, T>::forward(const T* table, const std::int64_t* ids, T* y,
                                           EmbeddingSizes sizes) {
  cuda::launch("embedding", embedding_kernel<T>,
               {.blocks_x = sizes.num_ids, .threads = row_threads<T>(sizes.width)},
               rows_at(table, sizes.width), ids, rows_at(y, sizes.width));
}

template <class Backend, class T>
void EmbeddingKernels<Backend, T>::backward(const T* dy, const std::int64_t* ids, Acc<T>* dtable,
                                            EmbeddingSizes sizes) {
  const std::int64_t width = sizes.width;
  cuda::set_zero(dtable, static_cast<std::size_t>(sizes.num_rows * width) * sizeof(float));
  if (sizes.num_ids == 0) return;
  const SortedIds sorted(ids, sizes.num_ids, sizes.num_rows);
  const Chunks chunks{sorted.get(), sizes.num_ids, chunk_length(sizes.num_ids)};
  const std::int64_t number = (chunks.count + chunks.length - 1) / chunks.length;
  const DeviceScratch scratch(static_cast<std::size_t>(number * kParts * width) * sizeof(float));
  auto* const partials = scratch.as<float>();
  const int threads = row_threads<T>(width);
  const std::int64_t columns = std::int64_t{threads} * Pack<T>::kCount;  // of a block
  cuda::launch("sum_runs", sum_runs_kernel<T>,
               {.blocks_x = number,
                .blocks_y = (width + columns - 1) / columns,
                .threads = threads,
                .shared_bytes = static_cast<std::size_t>(2 * chunks.length) * sizeof(std::int64_t)},
               chunks, rows_at(dy, width), partials, rows_at(dtable, width));
  cuda::launch("join_runs", join_runs_kernel,
               {.blocks_x = number - 1,
                .blocks_y = (width + kJoinThreads - 1) / kJoinThreads,
                .threads = kJoinThreads},
               chunks, partials, width, dtable);
}

template struct EmbeddingKernels<Cuda, float>;
template struct EmbeddingKernels<Cuda, bfloat16>;

}  // namespace moh
