#include "ops/attention/aggregated_attention_cuda.h"

#include "core/cuda/backend.h"
#include "core/cuda/tag.h"
#include "ops/attention/aggregated/passes.h"
#include "ops/attention/zero_heads_cuda.h"
#include "ops/conv/conv2d_kernels.h"
#include "ops/cuda/part_sums.h"
#include "ops/cuda/reduce.h"

namespace moh {

namespace {

/// Hands out slices of the workspace, each aligned to 16 bytes.
class Slices {
 public:
  explicit Slices(std::size_t bytes) : scratch_(bytes + kSlices * kAlignment) {}
  template <class E = float>
  E* take(std::int64_t count) {
    auto* const data = scratch_.as<std::byte>() + used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(E) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<E*>(data);
  }

 private:
  static constexpr std::size_t kAlignment = 16, kSlices = 16;
  DeviceScratch scratch_;
  std::size_t used_ = 0;
};

/// Whether heads are whole chunks in all these places.
template <class... Views>
bool is_whole(std::int64_t head_dim, const Views&... data) {
  return head_dim % aggregated::kChunk == 0 && ((reinterpret_cast<std::uintptr_t>(data) % 16 == 0) && ...);
}

/// The operands, with position biases and learnable tokens in the order in which kernels read them, and with
/// the keys that are kept.
template <class T, class Args>
aggregated::Problem<T> problem_of(const Args& args, const aggregated::Division& division,
                                  std::int64_t num_rows, bool whole, Slices& slices) {
  const AttentionShape& s = args.shape.pairs;
  const std::int64_t neighbours = args.shape.neighbours();
  float* const bias = slices.take(aggregated::Division::position_biases(s));
  float* const tokens = slices.take(s.heads * neighbours * s.head_dim);
  ConvKernels<Cuda, float>::swap_axes(args.parameters.position_bias, bias, s.heads, s.queries, s.keys);
  if (neighbours > 0)
    ConvKernels<Cuda, float>::swap_axes(args.parameters.tokens, tokens, s.heads, s.head_dim, neighbours);
  aggregated::Problem<T> problem{
      args.shape, args.lists, args.q, args.k, args.v, args.local_k, args.local_v, args.parameters,
      args.gates, bias,       tokens, whole,  {}};
  if (args.shape.kept_percent < 100) {
    problem.kept = {slices.take<std::uint32_t>(aggregated::Division::kept_words(args.shape) * num_rows),
                    num_rows};
    select_keys(problem, slices.take(division.select_scores(args.shape)));
  }
  return problem;
}

/// The gradients of a head's query embedding and temperature.
struct StoreCosine {
  AggregatedParameters<float> to;
  const float* temperature;
  std::int64_t head_dim, width;

  MOH_DEVICE void operator()(std::int64_t head, std::int64_t column, float sum) const {
    if (column < head_dim) to.query_embedding[head * head_dim + column] = sum;
    // The derivative of softplus.
    if (column == width - 1) to.temperature[head] = sum / (1.0F + expf(-temperature[head]));
  }
};

/// The gradients of the parameters that belong to a neighbour.
struct StoreLearned {
  AggregatedParameters<float> to;
  std::int64_t head_dim, neighbours, width;

  MOH_DEVICE void operator()(std::int64_t head, std::int64_t column, float sum) const {
    const std::int64_t j = column / width, c = column % width;
    if (c < head_dim) to.tokens[(head * head_dim + c) * neighbours + j] = sum;
    if (c == width - 2) to.token_bias[head * neighbours + j] = sum;
    if (c == width - 1) to.local_bias[head * neighbours + j] = sum;
  }
};

template <class T>
void sum_parameters(const aggregated::Backward<T>& b, const AggregatedParameters<float>& to) {
  const AggregatedShape& shape = b.problem.shape;
  const AttentionShape& s = shape.pairs;
  const aggregated::Division& division = b.division;
  const Parts rows{b.row_sums, s.heads, division.row_sums(s), division.row_sum_width()};
  sum_parts("sum_cosine_parameters", rows,
            StoreCosine{to, b.problem.parameters.temperature, s.head_dim, rows.width});
  sum_parts("sum_position_biases", {b.bias_sums, 1, division.parts, aggregated::Division::position_biases(s)},
            StoreSums{to.position_bias});
  if (shape.window == 0) return;
  const std::int64_t width = division.learned_width();
  const Parts learned{b.learned_sums, s.heads, division.learned_sums(), shape.neighbours() * width};
  sum_parts("sum_window_parameters", learned, StoreLearned{to, s.head_dim, shape.neighbours(), width});
}

}  // namespace

template <class T>
void CudaAggregated<T>::forward(const AggregatedForward<T>& args, std::int64_t num_rows) {
  const AttentionShape& s = args.shape.pairs;
  if (args.lists.rows != nullptr) zero_heads(args.out, s);
  const aggregated::Division division = aggregated::Division::of(args.shape);
  Slices slices(division.forward_bytes(args.shape, num_rows));
  const bool whole = is_whole(s.head_dim, args.q.data, args.k.data, args.v.data, args.local_k.data,
                              args.local_v.data, args.out.data, args.parameters.query_embedding);
  aggregated::forward(problem_of<T>(args, division, num_rows, whole, slices), args.out, args.lse);
}

template <class T>
void CudaAggregated<T>::backward(const AggregatedBackward<T>& args, std::int64_t num_rows,
                                 const AggregatedParameters<float>& sums) {
  const AttentionShape& s = args.shape.pairs;
  const std::int64_t pairs = s.batch * s.queries * s.heads, near = args.shape.neighbours() * num_rows;
  if (args.lists.rows != nullptr) zero_heads(args.dq, s);
  const aggregated::Division division = aggregated::Division::of(args.shape);
  Slices slices(division.backward_bytes(args.shape, num_rows));
  const bool whole = is_whole(s.head_dim, args.q.data, args.k.data, args.v.data, args.local_k.data,
                              args.local_v.data, args.dout.data, args.dq.data, args.dk.data, args.dv.data,
                              args.dlocal_k.data, args.dlocal_v.data, args.parameters.query_embedding);
  aggregated::Backward<T> b{problem_of<T>(args, division, num_rows, whole, slices),
                            division,
                            args.dout,
                            args.lse,
                            args.dq,
                            args.dgates,
                            num_rows};
  b.factors = slices.take<aggregated::RowFactors>(num_rows);
  if (args.lists.rows != nullptr && args.shape.window > 0) {
    b.row_numbers = slices.take<std::int32_t>(pairs);
    cuda::set_zero(b.row_numbers, static_cast<std::size_t>(pairs) * sizeof(std::int32_t));
  }
  b.dscores = slices.take(near);
  b.weights = slices.take(near);
  b.dlearned = slices.take(near);
  b.row_sums = slices.take(s.heads * division.row_sums(s) * division.row_sum_width());
  b.key_sums = slices.take(division.key_sums(s));
  b.bias_sums = slices.take(division.parts * aggregated::Division::position_biases(s));
  b.learned_sums =
      slices.take(s.heads * division.learned_sums() * args.shape.neighbours() * division.learned_width());
  aggregated::backward_rows(b);
  aggregated::backward_keys(b, args.dk, args.dv);
  if (args.shape.window > 0) aggregated::backward_window(b, args.dlocal_k, args.dlocal_v);
  sum_parameters(b, sums);
}

template struct CudaAggregated<float>;
template struct CudaAggregated<bfloat16>;

}  // namespace moh
