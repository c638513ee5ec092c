#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/map.h"
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

/// The sum of a row of the partial sums of a group, times weights where there are any.
template <class T>
MOH_DEVICE float group_sum(const DeviceSizes& s, const float* partials, std::int64_t group, std::int64_t row,
                           const T* w) {
  const std::int64_t image = group / s.groups, first = group % s.groups * s.each;
  float sum = 0;
  for (std::int64_t k = image * s.chunks; k < (image + 1) * s.chunks; ++k) {
    for (std::int64_t c = first; c < first + s.each; ++c)
      sum += partials[(2 * k + row) * s.channels + c] * (w == nullptr ? 1.0F : static_cast<float>(w[c]));
  }
  return sum;
}

/// A thread for each group: its mean, or, with eps, 1 / sqrt(variance + eps).
struct FinishGroups {
  const float* partials;
  float* to;
  float count, eps;  // eps < 0: the mean
  DeviceSizes s;

  MOH_DEVICE void operator()(std::int64_t group) const {
    const float mean = group_sum<float>(s, partials, group, 0, nullptr) / count;
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

/// A thread for each group: the means of g and of g n.
template <class T>
struct MeansOfGradients {
  const float* partials;
  const T* w;
  float* means;
  float count;
  DeviceSizes s;

  MOH_DEVICE void operator()(std::int64_t group) const {
    for (std::int64_t row = 0; row < 2; ++row)
      means[2 * group + row] = group_sum(s, partials, group, row, w) / count;
  }
};

/// A thread for each channel: db and dw.
struct SumParameters {
  const float* partials;
  float *dw, *db;
  DeviceSizes s;

  MOH_DEVICE void operator()(std::int64_t c) const {
    float sum = 0, dot = 0;
    for (std::int64_t k = 0; k < s.images * s.chunks; ++k) {
      sum += partials[2 * k * s.channels + c];
      dot += partials[(2 * k + 1) * s.channels + c];
    }
    db[c] = sum;
    dw[c] = dot;
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
  const std::int64_t sums = s.images * s.chunks * s.channels, groups = s.images * s.groups;
  const auto count = static_cast<float>(sizes.group_elements());
  cuda::launch_each("group_norm_sums", sums, SumChunks<T>{x, nullptr, partials, s});
  cuda::launch_each("group_norm_groups", groups, FinishGroups{partials, mean, count, -1.0F, s});
  cuda::launch_each("group_norm_sums", sums, SumChunks<T>{x, mean, partials, s});
  cuda::launch_each("group_norm_groups", groups,
                    FinishGroups{partials, r, count, static_cast<float>(eps), s});
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
  cuda::launch_each("group_norm_gradient_means", s.images * s.groups,
                    MeansOfGradients<T>{partials, w, means, static_cast<float>(sizes.group_elements()), s});
  if (dw != nullptr)
    cuda::launch_each("group_norm_gradient_parameters", s.channels, SumParameters{partials, dw, db, s});
  cuda::launch_each("group_norm_gradient", s.images * s.pixels * s.channels,
                    GradientOfInput<T>{dy, x, w, mean, r, means, dx, s});
}

template struct GroupNormKernels<Cuda, float>;
template struct GroupNormKernels<Cuda, bfloat16>;

}  // namespace moh
