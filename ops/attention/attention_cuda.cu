#include "ops/attention/attention_cuda.h"

#include <cmath>

#include "core/error.h"
#include "ops/attention/backend.h"
#include "ops/attention/cudnn/cudnn_attention.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/tensor_cores/tensor_core_attention.h"
#include "ops/attention/zero_heads_cuda.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/dropout/dropout_mask_cuda.h"

// Attention without tensor cores, in float32 whatever the dtype of its operands: the reference on the device.
// A warp computes one row (or key). For scores its lanes are mapped to keys (or rows), for weighted sums to
// elements of the heads, so that every sum has a fixed order.

namespace moh {

namespace {

constexpr int kMostHeadDim = 256, kDims = kMostHeadDim / device::kWarp;  // elements of a head per lane
constexpr float kLog2E = 1.4426950408889634F;

MOH_DEVICE int lane() {
  return device::thread_x() % device::kWarp;
}

template <class T>
MOH_DEVICE float dot(const T* a, const T* b, std::int64_t head_dim) {
  float sum = 0;
  for (std::int64_t c = 0; c < head_dim; ++c) sum += static_cast<float>(a[c]) * static_cast<float>(b[c]);
  return sum;
}

/// A lane's elements of a head: c = lane, lane + 32 ...
struct HeadSums {
  float values[kDims] = {};

  template <class T>
  MOH_DEVICE void add(float factor, const T* row, std::int64_t head_dim) {
    for (int i = 0; i < kDims; ++i) {
      const int c = lane() + i * device::kWarp;
      if (c < head_dim) values[i] += factor * static_cast<float>(row[c]);
    }
  }
  MOH_DEVICE void scale(float factor) {
    for (float& value : values) value *= factor;
  }
  template <class T>
  MOH_DEVICE void store(T* row, std::int64_t head_dim) const {
    for (int i = 0; i < kDims; ++i) {
      const int c = lane() + i * device::kWarp;
      if (c < head_dim) row[c] = values[i];
    }
  }
};

/// The factor of dropout for the weight of a pair and a key.
template <bool kDrops>
MOH_DEVICE float kept_factor(const AttentionShape& shape, const List& list, const Pair& pair,
                             std::int64_t key) {
  if constexpr (kDrops) return device_factor_of(shape.dropout, first_weight(shape, list, pair) + key);
  return 1.0F;
}

template <class T, bool kDrops>
MOH_KERNEL(kItemThreads)
void attention_kernel(AttentionForward<T> args) {
  const AttentionShape& shape = args.shape;
  const std::int64_t number = item_of_warp(), d = shape.head_dim;
  if (number >= total_rows(shape, args.lists)) return;
  const List list = list_of_row(shape, args.lists, number);
  const Pair pair = pair_at(list, number - list.first);
  const T* query = row_of(args.q, list, pair);
  const Range keys = visible_keys(shape, list.batch, pair.token);
  const float scale = static_cast<float>(shape.scale) * kLog2E;
  HeadSums sums;
  float top = -INFINITY, total = 0;
  for (std::int64_t begin = keys.begin; begin < keys.end; begin += device::kWarp) {
    const std::int64_t key = begin + lane();
    const float score = key < keys.end ? scale * dot(query, key_row(args.k, list, key), d) : -INFINITY;
    const float new_top = reduce_warp(fmaxf(top, score), Largest{});
    const float p = exp2f(score - new_top), shrink = exp2f(top - new_top);
    top = new_top;
    total = total * shrink + reduce_warp(p, Sum{});
    sums.scale(shrink);
    const float weight = p * kept_factor<kDrops>(shape, list, pair, key);
    for (int j = 0; j < device::kWarp && begin + j < keys.end; ++j)
      sums.add(device::shuffle(weight, j), key_row(args.v, list, begin + j), d);
  }
  const float gate = args.gates != nullptr ? args.gates[gate_index(shape, list, pair)] : 1.0F;
  sums.scale(gate / total);
  sums.store(row_of(args.out, list, pair), d);
  if (args.lse != nullptr && lane() == 0) args.lse[number] = top + log2f(total);
}

/// Operands of a row's gradients.
template <class T>
struct RowGradient {
  const T *query, *dout;
  float lse, gate, scale;
  std::int64_t head_dim;

  MOH_DEVICE float probability(const T* key) const {
    return exp2f(scale * kLog2E * dot(query, key, head_dim) - lse);
  }
  MOH_DEVICE float d_probability(const T* value) const { return dot(dout, value, head_dim); }
};

template <class T>
MOH_DEVICE RowGradient<T> row_gradient(const AttentionBackward<T>& args, const List& list, std::int64_t row) {
  const Pair pair = pair_at(list, row);
  return {row_of(args.q, list, pair),
          row_of(args.dout, list, pair),
          args.lse[list.first + row],
          args.gates != nullptr ? args.gates[gate_index(args.shape, list, pair)] : 1.0F,
          static_cast<float>(args.shape.scale),
          args.shape.head_dim};
}

/// dq and dgate of a row, and delta = gate * dgate for the keys: with P the probabilities, m the dropout mask
/// and dP = m <dout, v>,
///   dgate = sum P dP, dS = gate P (dP - dgate), dq = scale dS k.
template <class T, bool kDrops>
MOH_KERNEL(kItemThreads)
void attention_rows_gradient_kernel(AttentionBackward<T> args, float* deltas) {
  const std::int64_t number = item_of_warp(), d = args.shape.head_dim;
  if (number >= total_rows(args.shape, args.lists)) return;
  const List list = list_of_row(args.shape, args.lists, number);
  const Pair pair = pair_at(list, number - list.first);
  const RowGradient<T> row = row_gradient(args, list, number - list.first);
  const Range keys = visible_keys(args.shape, list.batch, pair.token);
  const auto d_probability = [&](std::int64_t key) {
    return kept_factor<kDrops>(args.shape, list, pair, key) * row.d_probability(key_row(args.v, list, key));
  };
  float dgate = 0;
  for (std::int64_t key = keys.begin + lane(); key < keys.end; key += device::kWarp)
    dgate += row.probability(key_row(args.k, list, key)) * d_probability(key);
  dgate = reduce_warp(dgate, Sum{});
  HeadSums dq;
  for (std::int64_t begin = keys.begin; begin < keys.end; begin += device::kWarp) {
    const std::int64_t key = begin + lane();
    float ds = 0;
    if (key < keys.end) {
      const float p = row.probability(key_row(args.k, list, key));
      ds = row.scale * row.gate * p * (d_probability(key) - dgate);
    }
    for (int j = 0; j < device::kWarp && begin + j < keys.end; ++j)
      dq.add(device::shuffle(ds, j), key_row(args.k, list, begin + j), d);
  }
  dq.store(row_of(args.dq, list, pair), d);
  if (lane() > 0) return;
  deltas[number] = row.gate * dgate;
  if (args.dgates != nullptr) args.dgates[gate_index(args.shape, list, pair)] = dgate;
}

/// dk and dv of a key, over the rows that see it: dk = scale sum dS q, dv = sum gate m P dout.
template <class T, bool kDrops>
MOH_KERNEL(kItemThreads)
void attention_keys_gradient_kernel(AttentionBackward<T> args, const float* deltas) {
  const std::int64_t d = args.shape.head_dim, warp = item_of_warp();
  if (warp >= args.shape.batch * args.shape.kv_heads * args.shape.keys) return;
  const List list = list_at(args.shape, args.lists, warp / args.shape.keys);
  const std::int64_t key = warp % args.shape.keys;
  const T *key_at = key_row(args.k, list, key), *value_at = key_row(args.v, list, key);
  HeadSums dk, dv;
  const Range rows = rows_seeing(args.shape, list, {key, key + 1});
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += device::kWarp) {
    const std::int64_t r = begin + lane();
    float ds = 0, weight = 0;
    if (r < rows.end) {
      const RowGradient<T> row = row_gradient(args, list, r);
      const float p = row.probability(key_at),
                  kept = row.gate * kept_factor<kDrops>(args.shape, list, pair_at(list, r), key);
      weight = kept * p;
      ds = row.scale * p * (kept * row.d_probability(value_at) - deltas[list.first + r]);
    }
    for (int j = 0; j < device::kWarp && begin + j < rows.end; ++j) {
      const Pair pair = pair_at(list, begin + j);
      dk.add(device::shuffle(ds, j), row_of(args.q, list, pair), d);
      dv.add(device::shuffle(weight, j), row_of(args.dout, list, pair), d);
    }
  }
  dk.store(key_row(args.dk, list, key), d);
  dv.store(key_row(args.dv, list, key), d);
}

/// Calls fn.template operator()<kDrops>(): kernels without dropout have no code for it.
template <class Fn>
void visit_dropout(const AttentionShape& shape, const Fn& fn) {
  shape.dropout.drops() ? fn.template operator()<true>() : fn.template operator()<false>();
}

template <class T>
constexpr bool kHasTensorCores = std::is_same_v<T, bfloat16>;

/// The forward pass without tensor cores.
template <class T>
void reference_forward(const AttentionForward<T>& args, std::int64_t num_rows) {
  if (args.lists.rows != nullptr) zero_heads(args.out, args.shape);
  visit_dropout(args.shape, [&]<bool kDrops>() {
    cuda::launch("attention", attention_kernel<T, kDrops>,
                 {.blocks_x = item_blocks(num_rows), .threads = kItemThreads}, args);
  });
}

MOH_KERNEL(kItemThreads)
void attention_lse_kernel(AttentionShape shape, const float* natural, float* lse) {
  const std::int64_t row = device::block_x() * kItemThreads + device::thread_x();
  if (row >= total_rows(shape, {})) return;
  const List list = list_of_row(shape, {}, row);
  const Pair pair = pair_at(list, row - list.first);
  const std::int64_t head = list.kv_head * list.group + pair.head;
  lse[row] = kLog2E * natural[(list.batch * shape.heads + head) * shape.queries + pair.token];
}

/// Why cuDNN does not support the forward pass of a call; empty if it does.
template <class T>
std::string refusal_of_cudnn(const AttentionForward<T>& args) {
  if (args.shape.window > 0) return "a sliding window, which its graph is not told of";
  if (args.shape.document_starts != nullptr || args.shape.document_ends != nullptr)
    return "a mask of documents, which its graph is not told of";
  if (args.shape.dropout.drops()) return "dropout, whose mask would be another";
  if constexpr (kHasTensorCores<T>) {
    return CudnnAttention::refusal(args);
  } else {
    return "float32 operands";
  }
}

/// Why cuDNN does not support the gradient of a call whose forward pass it supports; empty if it does, or if
/// there is to be none.
template <class T>
std::string refusal_of_cudnn_gradient(const AttentionForward<T>& args) {
  if constexpr (kHasTensorCores<T>) {
    if (args.lse != nullptr) return CudnnAttention::refusal_of_gradient(args);
  }
  return {};
}

}  // namespace

template <class T>
CudnnPasses CudaAttention<T>::for_cudnn(std::string_view op, const AttentionForward<T>& args) {
  const AttentionBackend backend = math_mode().attention;
  if (backend == AttentionBackend::kNative || args.lists.rows != nullptr) return {};
  if (backend == AttentionBackend::kAuto && !prefers_cudnn(cuda::limits().capability)) return {};
  std::string refusal = refusal_of_cudnn(args);
  const bool forward = refusal.empty();
  if (forward) refusal = refusal_of_cudnn_gradient(args);
  if (backend == AttentionBackend::kCudnn && !refusal.empty()) {
    throw DeviceError(error_message(op, "attention.backend: cudnn", "a case that cuDNN supports", refusal,
                                    "with attention.backend: auto, moh's kernels compute it"));
  }
  return {.forward = forward, .backward = refusal.empty()};
}

template <class T>
void CudaAttention<T>::order_lse(const AttentionShape& shape, const float* natural, float* lse) {
  const std::int64_t rows = total_rows(shape, {});
  cuda::launch("attention_lse", attention_lse_kernel,
               {.blocks_x = (rows + kItemThreads - 1) / kItemThreads, .threads = kItemThreads}, shape,
               natural, lse);
}

template <class T>
void CudaAttention<T>::forward(const AttentionForward<T>& args, std::int64_t num_rows) {
  if constexpr (kHasTensorCores<T>) {
    if (TensorCoreAttention::takes(args.shape.head_dim)) return TensorCoreAttention::forward(args, num_rows);
  }
  reference_forward(args, num_rows);
}

template <class T>
void CudaAttention<T>::decode(const AttentionForward<T>& args, std::int64_t num_rows) {
  if constexpr (kHasTensorCores<T>) {
    if (TensorCoreAttention::takes(args.shape.head_dim)) return TensorCoreAttention::decode(args, num_rows);
  }
  reference_forward(args, num_rows);
}

template <class T>
void CudaAttention<T>::backward(const AttentionBackward<T>& args, std::int64_t num_rows) {
  const AttentionShape& s = args.shape;
  if constexpr (kHasTensorCores<T>) {
    if (TensorCoreAttention::takes(s.head_dim)) return TensorCoreAttention::backward(args, num_rows);
  }
  if (args.lists.rows != nullptr) zero_heads(args.dq, s, args.dgates);
  const DeviceScratch deltas(static_cast<std::size_t>(num_rows) * sizeof(float));
  visit_dropout(s, [&]<bool kDrops>() {
    cuda::launch("attention_rows_gradient", attention_rows_gradient_kernel<T, kDrops>,
                 {.blocks_x = item_blocks(num_rows), .threads = kItemThreads}, args, deltas.as<float>());
    cuda::launch("attention_keys_gradient", attention_keys_gradient_kernel<T, kDrops>,
                 {.blocks_x = item_blocks(s.batch * s.kv_heads * s.keys), .threads = kItemThreads}, args,
                 deltas.as<float>());
  });
}

template struct CudaAttention<float>;
template struct CudaAttention<bfloat16>;

}  // namespace moh
