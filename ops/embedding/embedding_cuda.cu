#include "ops/cuda/rows.h"
#include "ops/cuda/scan.h"
#include "ops/device/atomic.h"
#include "ops/embedding/embedding_kernels.h"

namespace moh {

namespace {

constexpr int kThreads = 256;

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

/// ranks[n] = how many earlier places have the id of place n. Compares all pairs: 16k ids are some 10
/// microseconds' work for a GPU, and the order in which gradients are added does not depend on who comes
/// first.
MOH_KERNEL(kThreads)
void rank_ids_kernel(const std::int64_t* ids, std::int64_t count, std::int64_t* ranks) {
  auto* tile = device::shared_memory<std::int64_t>();
  const std::int64_t n = device::block_x() * kThreads + device::thread_x();
  const std::int64_t own = n < count ? ids[n] : -1, end = (device::block_x() + 1) * kThreads;
  std::int64_t rank = 0;
  for (std::int64_t begin = 0; begin < end; begin += kThreads) {
    const std::int64_t m = begin + device::thread_x();
    tile[device::thread_x()] = m < count ? ids[m] : -1;
    device::sync_block();
    for (int j = 0; j < kThreads; ++j) rank += begin + j < n && tile[j] == own;
    device::sync_block();
  }
  if (n < count) ranks[n] = rank;
}

/// counts[id] = how often it occurs: what the last of its places knows.
struct CountId {
  const std::int64_t *ids, *ranks;
  std::int32_t* counts;
  MOH_DEVICE void operator()(std::int64_t n) const {
    device::atomic_max(counts + ids[n], static_cast<std::int32_t>(ranks[n] + 1));
  }
};

/// starts[v] = the sum of the counts before v, for v up to and with the number of rows. One block.
MOH_KERNEL(kThreads)
void scan_counts_kernel(const std::int32_t* counts, std::int64_t rows, std::int64_t* starts) {
  scan_counts<kThreads>(counts, rows, starts);
}

struct PlaceId {
  const std::int64_t *ids, *ranks, *starts;
  std::int64_t* places;
  MOH_DEVICE void operator()(std::int64_t n) const { places[starts[ids[n]] + ranks[n]] = n; }
};

/// One block per row of the table: sums the gradients of its places in their order.
template <class T>
MOH_KERNEL(kMostRowThreads)
void embedding_gradient_kernel(RowAccess<const T> dy, const std::int64_t* starts, const std::int64_t* places,
                               RowAccess<T> dtable) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t v = device::block_x();
  each_piece<T>(dy.width, [&](std::int64_t first) {
    float sum[kPack] = {};
    for (std::int64_t k = starts[v]; k < starts[v + 1]; ++k) {
      float values[kPack];
      dy.at(places[k]).load(first, values);
      for (int j = 0; j < kPack; ++j) sum[j] += values[j];
    }
    dtable.at(v).store(first, sum);
  });
}

/// The places of the ids, grouped by id and ascending within each: places[starts[v]] ... places[starts[v + 1]
/// - 1].
void group_by_id(const std::int64_t* ids, EmbeddingSizes sizes, std::int64_t* starts, std::int64_t* places) {
  const DeviceScratch ranks(static_cast<std::size_t>(sizes.num_ids) * sizeof(std::int64_t));
  const std::size_t count_bytes = static_cast<std::size_t>(sizes.num_rows) * sizeof(std::int32_t);
  const DeviceScratch counts(count_bytes);
  cuda::set_zero(counts.as<void>(), count_bytes);
  cuda::launch("rank_ids", rank_ids_kernel,
               {.blocks_x = (sizes.num_ids + kThreads - 1) / kThreads,
                .threads = kThreads,
                .shared_bytes = kThreads * sizeof(std::int64_t)},
               ids, sizes.num_ids, ranks.as<std::int64_t>());
  cuda::launch_each("count_ids", sizes.num_ids,
                    CountId{ids, ranks.as<std::int64_t>(), counts.as<std::int32_t>()});
  cuda::launch("scan_counts", scan_counts_kernel,
               {.threads = kThreads, .shared_bytes = kThreads * sizeof(std::int64_t)},
               counts.as<std::int32_t>(), sizes.num_rows, starts);
  cuda::launch_each("place_ids", sizes.num_ids, PlaceId{ids, ranks.as<std::int64_t>(), starts, places});
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
void EmbeddingKernels<Backend, T>::backward(const T* dy, const std::int64_t* ids, T* dtable,
                                            EmbeddingSizes sizes) {
  const DeviceScratch starts(static_cast<std::size_t>(sizes.num_rows + 1) * sizeof(std::int64_t));
  const DeviceScratch places(static_cast<std::size_t>(sizes.num_ids) * sizeof(std::int64_t));
  group_by_id(ids, sizes, starts.as<std::int64_t>(), places.as<std::int64_t>());
  cuda::launch("embedding_gradient", embedding_gradient_kernel<T>,
               {.blocks_x = sizes.num_rows, .threads = row_threads<T>(sizes.width)}, rows_at(dy, sizes.width),
               starts.as<std::int64_t>(), places.as<std::int64_t>(), rows_at(dtable, sizes.width));
}

template struct EmbeddingKernels<Cuda, float>;
template struct EmbeddingKernels<Cuda, bfloat16>;

}  // namespace moh
