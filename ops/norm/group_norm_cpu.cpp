#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "ops/cpu/elementwise.h"
#include "ops/norm/group_norm_kernels.h"

namespace moh {

namespace {

/// Calls body(image, first pixel, last pixel, partial sums [2, C], set to 0) for each chunk of each image.
template <class A, class Body>
[[gnu::always_inline]] inline void each_chunk(const GroupNormSizes& s, A* partials, const Body& body) {
  const std::int64_t chunks = s.chunks(), chunk = s.chunk();
  parallel_for(s.images * chunks, 1, [&, chunks, chunk](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      A* partial = partials + i * 2 * s.channels;
      std::fill_n(partial, 2 * s.channels, A(0));
      const std::int64_t first = i % chunks * chunk;
      body(i / chunks, first, std::min(first + chunk, s.pixels), partial);
    }
  });
}

/// The sum of row `row` (0 or 1) of the partial sums of a group of an image, times factor(c).
template <class A, class Factor>
[[gnu::always_inline]] inline A group_sum(const GroupNormSizes& s, const A* partials, std::int64_t image,
                                          std::int64_t group, std::int64_t row, const Factor& factor) {
  A sum = 0;
  for (std::int64_t k = image * s.chunks(); k < (image + 1) * s.chunks(); ++k) {
    const A* of_chunk = partials + (2 * k + row) * s.channels;
    for (std::int64_t c = group * s.group_channels(); c < (group + 1) * s.group_channels(); ++c)
      sum += of_chunk[c] * factor(c);
  }
  return sum;
}

}  // namespace

template <class Backend, class T>
void GroupNormKernels<Backend, T>::statistics(const T* x, Acc<T>* mean, Acc<T>* r, Acc<T>* partials,
                                              const GroupNormSizes& s, double eps) {
  using A = Acc<T>;
  const std::int64_t channels = s.channels, each = s.group_channels();
  const auto one = [](std::int64_t) { return A(1); };
  const auto count = static_cast<A>(s.group_elements());
  each_chunk(s, partials, [=](std::int64_t image, std::int64_t first, std::int64_t last, A* sums) {
    for (std::int64_t p = image * s.pixels + first; p < image * s.pixels + last; ++p) {
      const T* xp = x + p * channels;
      for_vectors_in<A>(0, channels, [=](auto at) { at.store(sums, at.load_cached(sums) + at.load(xp)); });
    }
  });
  for (std::int64_t i = 0; i < s.images * s.groups; ++i)
    mean[i] = group_sum(s, partials, i / s.groups, i % s.groups, 0, one) / count;
  each_chunk(s, partials, [=](std::int64_t image, std::int64_t first, std::int64_t last, A* sums) {
    A* means = sums + channels;  // of each channel's group
    for (std::int64_t c = 0; c < channels; ++c) means[c] = mean[image * s.groups + c / each];
    for (std::int64_t p = image * s.pixels + first; p < image * s.pixels + last; ++p) {
      const T* xp = x + p * channels;
      for_vectors_in<A>(0, channels, [=](auto at) {
        const Vec<A> off = at.load(xp) - at.load_cached(means);
        at.store(sums, at.load_cached(sums) + off * off);
      });
    }
  });
  for (std::int64_t i = 0; i < s.images * s.groups; ++i) {
    const A variance = group_sum(s, partials, i / s.groups, i % s.groups, 0, one) / count;
    r[i] = A(1) / std::sqrt(variance + A(eps));
  }
}

template <class Backend, class T>
void GroupNormKernels<Backend, T>::normalise(const T* x, const T* w, const T* b, const Acc<T>* mean,
                                             const Acc<T>* r, T* y, Acc<T>* partials,
                                             const GroupNormSizes& s) {
  using A = Acc<T>;
  const std::int64_t channels = s.channels, each = s.group_channels();
  each_chunk(s, partials, [=](std::int64_t image, std::int64_t first, std::int64_t last, A* factors) {
    A* means = factors + channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      factors[c] = r[image * s.groups + c / each] * A(w[c]);
      means[c] = mean[image * s.groups + c / each];
    }
    for (std::int64_t p = image * s.pixels + first; p < image * s.pixels + last; ++p) {
      const T* xp = x + p * channels;
      T* yp = y + p * channels;
      for_vectors_in<A>(0, channels, [=](auto at) {
        at.store(yp, (at.load(xp) - at.load_cached(means)) * at.load_cached(factors) + at.load_cached(b));
      });
    }
  });
}

// With n = (x - mean) r and g = dy w: dx = r (g - mean(g) - n mean(g n)) with means over the group, and over
// all pixels of all images db_c = sum dy, dw_c = sum dy n.
template <class Backend, class T>
void GroupNormKernels<Backend, T>::backward(const T* dy, const T* x, const T* w, const Acc<T>* mean,
                                            const Acc<T>* r, T* dx, Acc<T>* dw, Acc<T>* db, Acc<T>* partials,
                                            Acc<T>* means, const GroupNormSizes& s) {
  using A = Acc<T>;
  const std::int64_t channels = s.channels, each = s.group_channels();
  const auto count = static_cast<A>(s.group_elements());
  each_chunk(s, partials, [=](std::int64_t image, std::int64_t first, std::int64_t last, A* sums) {
    for (std::int64_t p = image * s.pixels + first; p < image * s.pixels + last; ++p) {
      const T* xp = x + p * channels;
      const T* dyp = dy + p * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t group = image * s.groups + c / each;
        sums[c] += A(dyp[c]);
        sums[channels + c] += A(dyp[c]) * (A(xp[c]) - mean[group]) * r[group];
      }
    }
  });
  const auto weight = [w](std::int64_t c) { return A(w[c]); };
  for (std::int64_t i = 0; i < s.images * s.groups; ++i) {
    for (std::int64_t row = 0; row < 2; ++row)
      means[2 * i + row] = group_sum(s, partials, i / s.groups, i % s.groups, row, weight) / count;
  }
  if (dw != nullptr) {
    for (std::int64_t c = 0; c < channels; ++c) {
      A sums[2] = {0, 0};
      for (std::int64_t k = 0; k < 2 * s.images * s.chunks(); ++k) sums[k % 2] += partials[k * channels + c];
      db[c] = sums[0];
      dw[c] = sums[1];
    }
  }
  parallel_for(s.images * s.pixels, s.chunk(), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t image = p / s.pixels;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t group = image * s.groups + c / each, j = p * channels + c;
        const A normal = (A(x[j]) - mean[group]) * r[group];
        dx[j] = r[group] * (A(dy[j]) * A(w[c]) - means[2 * group] - normal * means[2 * group + 1]);
      }
    }
  });
}

template struct GroupNormKernels<cpu::MOH_ISA, float>;
template struct GroupNormKernels<cpu::MOH_ISA, bfloat16>;
template struct GroupNormKernels<cpu::MOH_ISA, double>;

}  // namespace moh
