#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/part_sums.h"
#include "ops/cuda/reduce.h"
#include "ops/norm/group_norm_kernels.h"

namespace moh {

namespace {

/// Sizes for kernels.
struct DeviceSizes {
  std::int64_t images, pixels, channels, groups, each, chunk, chunks;

  explicit DeviceSizes(const GroupNormSizes& s)
      : images(s.images),
        pixels(s.pixels),
        channels(s.channels),
        groups(s.groups),
        each(s.group_channels()),
        chunk(s.chunk()),
        chunks(s.chunks()) {}

  /// The group, over all images, of a channel of an image.
  MOH_DEVICE std::int64_t group_of(std::int64_t image, std::int64_t channel) const {
    return image * groups + channel / each;
  }
};

/// Calls body(element) for the pixels of chunk `k` (over all images) in a channel.
template <class Body>
MOH_DEVICE void each_of_chunk(const DeviceSizes& s, std::int64_t k, std::int64_t channel, const Body& body) {
  const std::int64_t image = k / s.chunks, first = k % s.chunks * s.chunk;
  const std::int64_t last = first + s.chunk < s.pixels ? first + s.chunk : s.pixels;
  for (std::int64_t p = first; p < last; ++p) body((image * s.pixels + p) * s.channels + channel);
}

/// A thread for each (chunk, channel), channels of a warp side by side: row 0 of the partial sums is that of
/// x, or, with `mean`, of the squared distances from it.
template <class T>
struct SumChunks {
  const T* x;
  const float* mean;
  float* partials;
  DeviceSizes s;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t k = i / s.channels, c = i % s.channels;
    const float centre = mean == nullptr ? 0.0F : mean[s.group_of(k / s.chunks, c)];
    float sum = 0;
    each_of_chunk(s, k, c, [&](std::int64_t j) {
      const float off = static_cast<float>(x[j]) - centre;
      sum += mean == nullptr ? off : off * off;
    });
    partials[2 * k * s.channels + c] = sum;
  }
};

constexpr int kGroupWarps = 8, kGroupThreads = kGroupWarps * device::kWarp;

/// Sums of `rows` rows of the partial sums, times weights where there are any. A warp for each group: a lane
/// adds each 32nd partial sum, in order. Calls store(group, row, sum).
template <class T, class Store>
MOH_KERNEL(kGroupThreads)
void group_sums_kernel(DeviceSizes s, const float* partials, const T* w, int rows, Store store) {
  const int lane = device::thread_x() % device::kWarp, warp = device::thread_x() / device::kWarp;
  const std::int64_t group = device::block_x() * kGroupWarps + warp;
  if (group >= s.images * s.groups) return;
  const std::int64_t image = group / s.groups, first = group % s.groups * s.each;
  for (int row = 0; row < rows; ++row) {
    float sum = 0;
    for (std::int64_t i = lane; i < s.chunks * s.each; i += device::kWarp) {
      const std::int64_t k = image * s.chunks + i / s.each, c = first + i % s.each;
      sum += partials[(2 * k + row) * s.channels + c] * (w == nullptr ? 1.0F : static_cast<float>(w[c]));
    }
    sum = reduce_warp(sum, Sum{});
    if (lane == 0) store(group, row, sum);
  }
}

template <class T, class Store>
void sum_groups(const char* name, const DeviceSizes& s, const float* partials, const T* w, int rows,
                const Store& store) {
  cuda::launch(name, group_sums_kernel<T, Store>,
               {.blocks_x = (s.images * s.groups + kGroupWarps - 1) / kGroupWarps, .threads = kGroupThreads},
               s, partials, w, rows, store);
}

/// The mean of a group, or, with eps, 1 / sqrt(variance + eps).
struct FinishGroup {
  float* to;
  float count, eps;  // eps < 0: the mean
  MOH_DEVICE void operator()(std::int64_t group, int /*row*/, float sum) const {
    const float mean = sum / count;
    to[group] = eps < 0 ? mean : 1.0F / sqrtf(mean + eps);
  }
};

template <class T>
struct Normalise {
  const T *x, *w, *b;
  const float *mean, *r;
  T* y;
  DeviceSizes s;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t c = i % s.channels, group = s.group_of(i / s.channels / s.pixels, c);
    y[i] = (static_cast<float>(x[i]) - mean[group]) * (r[group] * static_cast<float>(w[c])) +
           static_cast<float>(b[c]);
  }
};

/// A thread for each (chunk, channel): the sums of dy and of dy n.
template <class T>
struct SumGradients {
  const T *dy, *x;
  const float *mean, *r;
  float* partials;
  DeviceSizes s;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t k = i / s.channels, c = i % s.channels, group = s.group_of(k / s.chunks, c);
    float sum = 0, dot = 0;
    each_of_chunk(s, k, c, [&](std::int64_t j) {
      const float g = dy[j];
      sum += g;
      dot += g * (static_cast<float>(x[j]) - mean[group]) * r[group];
    });
    partials[2 * k * s.channels + c] = sum;
    partials[(2 * k + 1) * s.channels + c] = dot;
  }
};

/// The means of g and of g n of a group.
struct MeansOfGradients {
  float* means;
  float count;
  MOH_DEVICE void operator()(std::int64_t group, int row, float sum) const {
    means[2 * group + row] = sum / count;
  }
};

/// db and dw, from the sums over all chunks.
struct StoreParameters {
  float *dw, *db;
  std::int64_t channels;
  MOH_DEVICE void operator()(std::int64_t /*group*/, std::int64_t column, float sum) const {
    if (column < channels)
      db[column] = sum;
    else
      dw[column - channels] = sum;
  }
};

template <class T>
struct GradientOfInput {
  const T *dy, *x, *w;
  const float *mean, *r, *means;
  T* dx;
  DeviceSizes s;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t c = i % s.channels, group = s.group_of(i / s.channels / s.pixels, c);
    const float normal = (static_cast<float>(x[i]) - mean[group]) * r[group];
    dx[i] = r[group] * (static_cast<float>(dy[i]) * static_cast<float>(w[c]) - means[2 * group] -
                        normal * means[2 * group + 1]);
  }
};

}  // namespace

template <class Backend, class T>
void GroupNormKernels<Backend, T>::statistics(const T* x, Acc<T>* mean, Acc<T>* r, Acc<T>* partials,
                                              const GroupNormSizes& sizes, double eps) {
  const DeviceSizes s(sizes);
  const std::int64_t sums = s.images * s.chunks * s.channels;
  const auto count = static_cast<float>(sizes.group_elements());
  cuda::launch_each("group_norm_sums", sums, SumChunks<T>{x, nullptr, partials, s});
  const auto finish = [&](float* to, float with_eps) {
    sum_groups<T>("group_norm_groups", s, partials, nullptr, 1, FinishGroup{to, count, with_eps});
  };
  finish(mean, -1.0F);
  cuda::launch_each("group_norm_sums", sums, SumChunks<T>{x, mean, partials, s});
  finish(r, static_cast<float>(eps));
}

template <class Backend, class T>
void GroupNormKernels<Backend, T>::normalise(const T* x, const T* w, const T* b, const Acc<T>* mean,
                                             const Acc<T>* r, T* y, Acc<T>* /*partials*/,
                                             const GroupNormSizes& sizes) {
  const DeviceSizes s(sizes);
  cuda::launch_each("group_norm", s.images * s.pixels * s.channels, Normalise<T>{x, w, b, mean, r, y, s});
}

// With n = (x - mean) r and g = dy w: dx = r (g - mean(g) - n mean(g n)) with means over the group, and over
// all pixels of all images db_c = sum dy, dw_c = sum dy n.
template <class Backend, class T>
void GroupNormKernels<Backend, T>::backward(const T* dy, const T* x, const T* w, const Acc<T>* mean,
                                            const Acc<T>* r, T* dx, Acc<T>* dw, Acc<T>* db, Acc<T>* partials,
                                            Acc<T>* means, const GroupNormSizes& sizes) {
  const DeviceSizes s(sizes);
  cuda::launch_each("group_norm_gradient_sums", s.images * s.chunks * s.channels,
                    SumGradients<T>{dy, x, mean, r, partials, s});
  sum_groups("group_norm_gradient_means", s, partials, w, 2,
             MeansOfGradients{means, static_cast<float>(sizes.group_elements())});
  if (dw != nullptr)
    sum_parts("group_norm_gradient_parameters", {partials, 1, s.images * s.chunks, 2 * s.channels},
              StoreParameters{dw, db, s.channels});
  cuda::launch_each("group_norm_gradient", s.images * s.pixels * s.channels,
                    GradientOfInput<T>{dy, x, w, mean, r, means, dx, s});
}

template struct GroupNormKernels<Cuda, float>;
template struct GroupNormKernels<Cuda, bfloat16>;

}  // namespace moh
