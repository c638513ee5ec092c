#include "core/cuda/launch.h"
#include "core/cuda/sum_rows.h"

namespace moh::cuda {

namespace {

/// `width` elements, which are loaded and stored at once.
template <int width>
struct alignas(width * sizeof(bfloat16)) Piece {
  bfloat16 values[width];
};

template <int width>
struct SumRows {
  const Piece<width>* rows;
  Piece<width>* sums;
  std::int64_t number, pieces;

  MOH_DEVICE void operator()(std::int64_t i) const {
    float sum[width];
    for (int j = 0; j < width; ++j) sum[j] = 0;
    for (std::int64_t row = 0; row < number; ++row) {
      const Piece<width> piece = rows[row * pieces + i];
      for (int j = 0; j < width; ++j) {
        const float value = static_cast<float>(piece.values[j]);
        sum[j] = row == 0 ? value : sum[j] + value;  // 0 + -0 would be 0
      }
    }
    Piece<width> rounded;
    for (int j = 0; j < width; ++j) rounded.values[j] = bfloat16(sum[j]);
    sums[i] = rounded;
  }
};

template <int width>
void sum_pieces(const bfloat16* rows, bfloat16* sums, std::int64_t number, std::int64_t count) {
  const std::int64_t pieces = count / width;
  const SumRows<width> body{reinterpret_cast<const Piece<width>*>(rows),
                            reinterpret_cast<Piece<width>*>(sums), number, pieces};
  launch_each("sum_rows", pieces, body);
}

}  // namespace

void sum_rows(const bfloat16* rows, bfloat16* sums, std::int64_t number, std::int64_t count) {
  constexpr int kWide = 8;
  constexpr std::uintptr_t kBytes = kWide * sizeof(bfloat16);
  const auto address = reinterpret_cast<std::uintptr_t>(rows) | reinterpret_cast<std::uintptr_t>(sums);
  const bool wide = count % kWide == 0 && address % kBytes == 0;
  wide ? sum_pieces<kWide>(rows, sums, number, count) : sum_pieces<1>(rows, sums, number, count);
}

}  // namespace moh::cuda
