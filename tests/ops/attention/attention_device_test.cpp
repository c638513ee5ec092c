#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "ops/attention/attention_cuda.h"
#include "ops/attention/backend.h"
#include "ops/attention/cache_append.h"
#include "ops/attention/cudnn/cudnn_attention.h"
#include "ops/attention/decode.h"
#include "ops/attention/tensor_cores/head_widths.h"
#include "tests/ops/attention/reference.h"
#include "tests/ops/device_checks.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/op_run.h"

// Attention in bfloat16 on a GPU, in sizes that cross what its kernels cut the work into.

namespace moh::test {

namespace {

struct Problem {
  AttentionSizes sizes;
  AttentionOptions options;
  double share;          ///< of pairs that are selected; -1: dense
  double documents = 0;  ///< share of the keys, or queries, that begin a document; 0: a sequence is one

  /// The options, with documents where there are several.
  AttentionOptions mask(Device device) const {
    return documents > 0 ? with_documents(options, sizes, documents, device) : options;
  }
};

/// The computation of a problem, as a case without a gradient check.
OpCase case_of(const Problem& p) {
  const AttentionInputs in = attention_inputs(p.sizes, p.share);
  OpCase op_case{.name = to_string(Shape{p.sizes.batch, p.sizes.queries, p.sizes.keys, p.sizes.heads,
                                         p.sizes.kv_heads, p.sizes.head_dim}) +
                         (p.options.causal ? " causal, share " : " full, share ") + std::to_string(p.share) +
                         ", window " + std::to_string(p.options.window) + ", documents " +
                         std::to_string(p.documents) + ", dropout " + std::to_string(p.options.dropout),
                 .inputs = {in.q, in.k, in.v},
                 .units = 4};
  if (p.share < 0) {
    op_case.run = [p](const Inputs& x) {
      return Outputs{attention(x[0], x[1], x[2], p.mask(x[0].value().device()))};
    };
    return op_case;
  }
  in.gates.data<double>()[0] = 0.0;  // its gradient is that of any other
  op_case.inputs.push_back(in.gates);
  op_case.run = [p, selected = in.selected](const Inputs& x) {
    const HeadLists lists = build_head_lists(selected.to(x[0].value().device()), p.sizes.kv_heads);
    return Outputs{head_sparse_attention(x[0], x[1], x[2], x[3], lists, p.mask(x[0].value().device()))};
  };
  return op_case;
}

void check_problem(const Problem& p) {
  const OpCase op_case = case_of(p);
  INFO(op_case.name);
  check_on_device(op_case, DType::kBFloat16, 0x1p-9);
}

/// Tokens [begin, end) of x [B, T, G, d].
Tensor tokens_of(const Tensor& x, std::int64_t begin, std::int64_t end) {
  Tensor tokens = empty({x.dim(0), end - begin, x.dim(2), x.dim(3)}, x.dtype(), x.device());
  for (std::int64_t b = 0; b < x.dim(0); ++b) tokens.select(b).copy_from(x.select(b).slice(begin, end));
  return tokens;
}

/// Caches of k and v with room for a token more, filled in two steps where there are two tokens.
std::pair<Tensor, Tensor> caches_of(const Tensor& k, const Tensor& v) {
  const Shape shape{k.dim(0), k.dim(2), k.dim(1) + 1, k.dim(3)};
  const Tensor k_cache = zeros(shape, k.dtype(), k.device()), v_cache = zeros_like(k_cache);
  const std::int64_t half = k.dim(1) / 2;
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, half}, std::pair{half, k.dim(1)}})
    append_to_cache(tokens_of(k, begin, end), tokens_of(v, begin, end), k_cache, v_cache, begin);
  return {k_cache, v_cache};
}

/// Copies keep their bits, so the CPU's are what is expected: heads of whole pieces of 16 bytes and of
/// others.
void check_append(const Shape& shape, DType dtype) {
  INFO(to_string(shape) << ", " << dtype_name(dtype));
  const Tensor k = normal(shape, 1).to(dtype), v = normal(shape, 2).to(dtype);
  const std::pair<Tensor, Tensor> expected = caches_of(k, v);
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    const std::pair<Tensor, Tensor> found = caches_of(k.to(gpu), v.to(gpu));
    CHECK(same_bits({.tensors = {found.first.to(kCpu), found.second.to(kCpu)}},
                    {.tensors = {expected.first, expected.second}}));
  });
}

/// Generation in bfloat16 on the GPU against float64 on the CPU.
void check_decode(const AttentionSizes& sizes, double share, std::int64_t window = 0) {
  INFO(sizes.queries << " queries, " << sizes.keys << " keys, width " << sizes.head_dim << ", share " << share
                     << ", window " << window);
  const Device gpu = open_gpu();
  const AttentionInputs in = attention_inputs(sizes, share);
  const auto decode = [&](const auto& convert) {
    const auto [k, v] = caches_of(convert(in.k), convert(in.v));
    return attention_decode(
        convert(in.q), k, v, sizes.keys - 1, in.gates.defined() ? convert(in.gates) : Tensor(),
        in.selected.defined() ? build_head_lists(in.selected.to(k.device()), sizes.kv_heads) : HeadLists{},
        {.window = window});
  };
  const Tensor expected = decode([](const Tensor& x) { return x.to(DType::kBFloat16).to(DType::kFloat64); });
  in_each_way([&](const std::string& way) {
    INFO(way);
    const Tensor found = decode([&](const Tensor& x) { return x.to(DType::kBFloat16).to(gpu); });
    check_close(found.to(kCpu), expected, 3 * 0x1p-8, "output");  // of means of magnitude 1
  });
}

template <int... kWidths>
void check_widths(std::integer_sequence<int, kWidths...>) {
  for (const std::int64_t width : {std::int64_t{kWidths}...}) {
    check_problem({{1, 35, 258, 4, 1, width}, {.causal = true, .query_offset = 223}, 0.95});
    check_problem({{1, 67, 70, 2, 1, width}, {.causal = true, .query_offset = 3}, 0.8});
    check_problem({{1, 17, 33, 2, 2, width}, {.causal = false}, -1});
    check_problem({{1, 19, 70, 2, 1, width}, {.causal = false, .dropout = 0.3, .dropout_key = {1, 2}}, 0.8});
    check_decode({1, 1, 131, 2, 1, width}, -1);
  }
}

/// cuDNN's log-sum-exp gets the order of moh's rows, and is in powers of two.
void check_order_of_lse() {
  const Device gpu = open_gpu();
  const AttentionShape shape{
      .batch = 2, .queries = 37, .keys = 40, .heads = 6, .kv_heads = 2, .head_dim = 16};
  const Tensor natural = normal({2, 6, 37}, 5).to(DType::kFloat32);
  const Tensor on_gpu = natural.to(gpu), ordered = empty({2 * 6 * 37}, DType::kFloat32, gpu);
  CudaAttention<bfloat16>::order_lse(shape, on_gpu.data<float>(), ordered.data<float>());
  const Tensor found = ordered.to(kCpu);
  for (std::int64_t row = 0, b = 0; b < 2; ++b) {
    for (std::int64_t kv_head = 0; kv_head < 2; ++kv_head) {
      for (std::int64_t t = 0; t < 37; ++t) {
        for (std::int64_t h = 3 * kv_head; h < 3 * kv_head + 3; ++h, ++row) {
          const double expected = natural.data<float>()[(b * 6 + h) * 37 + t] / std::log(2.0);
          CHECK(found.data<float>()[row] == Approx(expected).epsilon(1e-6));
        }
      }
    }
  }
}

}  // namespace

void check_attention_on_device() {
  check_order_of_lse();
  const MathModeScope own({.attention = AttentionBackend::kNative});
  check_widths(tensor_cores::HeadWidths());
  for (const double share : {-1.0, 0.0, 0.5, 1.0}) {
    // Few keys, which stay; one past 256 rows, at which a list is shared by two blocks.
    check_problem({{2, 129, 129, 4, 2, 32}, {.causal = true}, share});
    check_problem({{3, 1, 65, 4, 2, 16}, {.causal = true, .query_offset = 64}, share});
    // Many: tiles of several lengths; one past a tile of rows and of keys.
    check_problem({{1, 129, 257, 2, 2, 16}, {.causal = true, .query_offset = 128}, share});
    check_problem({{2, 65, 321, 1, 1, 64}, {.causal = false}, share});
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const std::int64_t width : {1, 4, 24}) check_append({2, 5, 3, width}, dtype);
    check_append({1, 1, 2, 8}, dtype);
  }
  // One key less than a part, a part, one more; more rows than a strip; empty lists.
  for (const std::int64_t keys : {2, 128, 129, 130, 259}) check_decode({2, 1, keys, 4, 2, 16}, 0.3);
  check_decode({1, 7, 140, 6, 2, 16}, 0.9);
  check_decode({2, 3, 140, 2, 2, 16}, 0.0);
  // Windows that begin in the first part, with the second, and in the third.
  for (const std::int64_t window : {1, 90, 131, 259}) check_decode({2, 3, 259, 4, 2, 16}, 0.6, window);
  for (const double share : {-1.0, 0.5}) {
    // Few keys and many, windows shorter and longer than a step of the passes; documents of a few tokens and
    // of many, alone and with a window.
    check_problem({{1, 129, 129, 2, 1, 16}, {.window = 3}, share});
    check_problem({{2, 97, 97, 1, 1, 16}, {}, share, 0.2});
    check_problem({{1, 300, 300, 1, 1, 32}, {.window = 100}, share});
    check_problem({{2, 200, 265, 1, 1, 16}, {.query_offset = 65, .window = 150}, share, 0.02});
    // Ranges of keys without a causal mask.
    check_problem({{2, 97, 60, 2, 1, 16}, {.causal = false}, share, 0.1});
    check_problem({{2, 150, 300, 1, 1, 16}, {.causal = false}, share, 0.03});
  }
  // Dropout, with all kinds of masks; few keys, and many.
  const RandomKey key{3, std::uint64_t{1} << 33};
  for (const double share : {-1.0, 0.6}) {
    check_problem({{2, 130, 130, 4, 2, 16}, {.dropout = 0.2, .dropout_key = key}, share});
    check_problem(
        {{1, 70, 275, 2, 2, 32}, {.causal = false, .dropout = 0.5, .dropout_key = key}, share, 0.05});
  }
  // Keys that no query sees, and queries that see one key.
  check_problem({{1, 5, 70, 1, 1, 16}, {.causal = true}, 0.5});
  check_problem({{1, 5, 270, 1, 1, 16}, {.causal = true}, 0.5});
}

TEST_CASE("device: attention on tensor cores agrees with float64 on the CPU", "[device]") {
  check_attention_on_device();
}

template <int... kWidths>
void check_odd_lengths(std::integer_sequence<int, kWidths...>) {
  const MathModeScope own({.attention = AttentionBackend::kNative});
  for (const std::int64_t width : {std::int64_t{kWidths}...}) {
    DYNAMIC_SECTION("width " << width) {
      check_problem({{1, 67, 67, 4, 2, width}, {.causal = true}, 0.5});
      check_problem({{1, 33, 259, 2, 1, width}, {.causal = false}, -1});
    }
  }
}

// Each width apart, as a section: scripts/gpu_check.sh runs them one by one, before all else.
TEST_CASE("device: attention of each head width, in odd lengths", "[device]") {
  check_odd_lengths(tensor_cores::HeadWidths());
}

TEST_CASE("device: ranges of keys that do not ascend, or of no key, stay within the tensors", "[device]") {
  // The simulator refuses accesses outside: whatever a GPU holds, the host cannot check it.
  const Device gpu = open_gpu();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const std::int64_t keys : {40, 300}) {
      const AttentionInputs in = attention_inputs({1, 150, keys, 1, 1, 16}, -1);
      const Tensor starts = empty({1, 150}, DType::kInt32), ends = empty({1, 150}, DType::kInt32);
      const Tensor draw = uniform({2, 150}, -0.5, 1.5, 3);
      for (std::int64_t t = 0; t < 150; ++t) {
        const auto position = [&](std::int64_t row) {
          return static_cast<std::int32_t>(draw.data<double>()[row * 150 + t] * static_cast<double>(keys));
        };
        starts.data<std::int32_t>()[t] = position(0);
        ends.data<std::int32_t>()[t] = position(1);
      }
      std::vector<Variable> x;
      for (const Tensor& tensor : {in.q, in.k, in.v}) x.emplace_back(tensor.to(dtype).to(gpu), true);
      const AttentionOptions mask{
          .causal = false, .document_starts = starts.to(gpu), .document_ends = ends.to(gpu)};
      const Variable out = attention(x[0], x[1], x[2], mask);
      CHECK_NOTHROW(out.backward(normal(in.q.shape(), 9).to(dtype).to(gpu)));
      CHECK(out.value().to(kCpu).dim(1) == 150);
    }
  }
}

TEST_CASE("device: attention's dropout adds the stream in device memory to that of its key", "[device]") {
  const MathModeScope own({.attention = AttentionBackend::kNative});
  const Device gpu = open_gpu();
  const Tensor first_stream = full({}, 77, DType::kInt64, gpu);
  const AttentionInputs in = attention_inputs({1, 20, 40, 2, 1, 16}, -1);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto run = [&](RandomKey key) {
      std::vector<Variable> x;
      for (const Tensor& tensor : {in.q, in.k, in.v}) x.emplace_back(tensor.to(dtype).to(gpu), true);
      const Variable out = attention(x[0], x[1], x[2], {.causal = false, .dropout = 0.5, .dropout_key = key});
      out.backward(normal(in.q.shape(), 9).to(dtype).to(gpu));
      std::vector<Tensor> results = {out.value().to(kCpu)};
      for (const Variable& each : x) results.push_back(each.grad().to(kCpu));
      return results;
    };
    const std::vector<Tensor> found = run({5, 3, first_stream.data<std::int64_t>()});
    CHECK(same_bits({.tensors = found}, {.tensors = run({5, 80})}));
    CHECK_FALSE(same_bits({.tensors = found}, {.tensors = run({5, 3})}));
  }
}

TEST_CASE("device: attention skips what lies outside of a window", "[device]") {
  // A NaN reaches all that it was multiplied with, masked or not: steps of 64 keys, warps of 32 rows and
  // steps of 64 rows for the keys.
  constexpr std::int64_t kTokens = 321, kWindow = 70, kDim = 16, kStep = 64, kWarpRows = 32;
  const MathModeScope own({.attention = AttentionBackend::kNative});
  const Device gpu = open_gpu();
  const auto bfloat = [](const Tensor& x) { return x.to(DType::kBFloat16); };
  const AttentionInputs in = attention_inputs({1, kTokens, kTokens, 1, 1, kDim}, -1);
  const Tensor dout = normal(in.q.shape(), 9);
  std::fill_n(in.v.data<double>(), kStep * kDim, std::nan(""));
  std::fill_n(dout.data<double>() + (kTokens - 1) * kDim, kDim, std::nan(""));
  std::vector<Variable> x;
  for (const Tensor& tensor : {in.q, in.k, in.v}) x.emplace_back(bfloat(tensor).to(gpu), true);
  const Variable out = attention(x[0], x[1], x[2], {.window = kWindow});
  out.backward(bfloat(dout).to(gpu));
  const std::int64_t first_clean = kStep + kWindow - 1 + kWarpRows;
  CHECK(out.value().to(kCpu).reshape({kTokens, kDim}).slice(first_clean, kTokens).all_finite());
  const std::int64_t first_seen = (kTokens - kWindow) / kStep * kStep;  // by the last row, in whole steps
  CHECK(x[2].grad().to(kCpu).reshape({kTokens, kDim}).slice(0, first_seen).all_finite());
}

TEST_CASE("device: attention of tensors that begin anywhere has the bits of aligned ones", "[device]") {
  const Device gpu = open_gpu();
  const AttentionInputs in = attention_inputs({2, 70, 70, 4, 2, 64}, -1);
  const Tensor dout = normal(in.q.shape(), 9);
  /// `x` in bfloat16, `before` elements after the beginning of its memory.
  const auto shifted = [&](const Tensor& x, std::int64_t before) {
    const Tensor memory = zeros({before + x.numel()}, DType::kBFloat16, gpu);
    Tensor at = memory.slice(before, memory.numel()).reshape(x.shape());
    at.copy_from(x.to(DType::kBFloat16));
    return at;
  };
  const auto run = [&](std::int64_t before) {
    std::vector<Variable> x;
    for (const Tensor& tensor : {in.q, in.k, in.v}) x.emplace_back(shifted(tensor, before), true);
    const Variable out = attention(x[0], x[1], x[2], {.causal = true});
    out.backward(shifted(dout, before));
    std::vector<Tensor> results = {out.value().to(kCpu)};
    for (const Variable& each : x) results.push_back(each.grad().to(kCpu));
    return results;
  };
  CHECK(same_bits({.tensors = run(1)}, {.tensors = run(0)}));
}

TEST_CASE("device: blocks of keys under one maximum keep their weights", "[device]") {
  // The sums of earlier blocks are rescaled by a power of the difference of the maxima, which is 0 here, of
  // large logits: rounding it once in each block would favour the later ones.
  const MathModeScope own({.attention = AttentionBackend::kNative});
  const Device gpu = open_gpu();
  constexpr std::int64_t kKeys = 1024, kWidth = 64;
  const Tensor values = full({1, kKeys, 1, kWidth}, 1, DType::kBFloat16);
  std::fill_n(values.data<bfloat16>() + kKeys / 2 * kWidth, kKeys / 2 * kWidth, bfloat16(-1.0F));
  const Variable v(values.to(gpu));
  for (const double level : {37.0, 41.0, 43.0, 47.0, 53.0}) {
    const Variable q(full({1, 16, 1, kWidth}, level, DType::kBFloat16, gpu)),
        k(full({1, kKeys, 1, kWidth}, level, DType::kBFloat16, gpu));
    const Tensor out = attention(q, k, v, {.causal = false}).value().to(kCpu);
    CHECK(std::ranges::all_of(out.span<bfloat16>(), [](bfloat16 x) { return static_cast<float>(x) == 0; }));
  }
}

TEST_CASE("device: attention by cuDNN agrees with float64 on the CPU, where there is one", "[device]") {
  open_gpu();
  const MathModeScope cudnn({.attention = AttentionBackend::kCudnn});
  const Problem problem{{2, 130, 130, 4, 2, 64}, {.causal = true}, -1};
  if (const std::string absence = CudnnAttention::absence(); !absence.empty()) {
    // Asked for and not there: said, not replaced.
    CHECK_THROWS_WITH(check_problem(problem),
                      Catch::Contains("attention.backend: cudnn") && Catch::Contains(absence));
    CHECK_THROWS_WITH(check_problem({problem.sizes, {.window = 7}, -1}), Catch::Contains("a sliding window"));
    CHECK_THROWS_WITH(check_problem({problem.sizes, {.dropout = 0.1}, -1}), Catch::Contains("dropout"));
    for (const bool causal : {false, true}) {
      CHECK_THROWS_WITH(check_problem({problem.sizes, {.causal = causal}, -1, 0.1}),
                        Catch::Contains("a mask of documents"));
    }
    return;
  }
  check_problem(problem);
  {
    const MathModeScope any_order({.attention = AttentionBackend::kCudnn, .deterministic_attention = false});
    check_problem(problem);
  }
  CHECK_THROWS_WITH(check_problem({problem.sizes, {.dropout = 0.1}, -1}), Catch::Contains("dropout"));
  // Its graph is not told of windows and documents.
  CHECK_THROWS_WITH(check_problem({problem.sizes, {.window = 7}, -1}), Catch::Contains("a sliding window"));
  for (const std::int64_t width : {24, 64, 72, 128}) {
    check_problem({{2, 257, 257, 4, 4, width}, {.causal = false}, -1});
    check_problem({{1, 64, 320, 8, 2, width}, {.causal = true, .query_offset = 256}, -1});
  }
  // Packed, and of chosen heads, which is not cuDNN's.
  const AttentionInputs in = attention_inputs({2, 70, 70, 4, 2, 64}, -1);
  check_on_device({.name = "packed",
                   .inputs = {pack_heads(in.q, in.k, in.v)},
                   .run = [](const Inputs& x) { return Outputs{attention_packed(x[0], 4, 2, {})}; },
                   .units = 4},
                  DType::kBFloat16, 0x1p-9);
  check_problem({{2, 70, 70, 4, 2, 64}, {.causal = true}, 0.5});
}

}  // namespace moh::test
