#include "ops/attention/attention.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/allocator.h"
#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/attention/reference.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/thread_counts.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

struct AttentionProblem {
  AttentionSizes sizes;
  AttentionOptions options;
  double documents = 0;  ///< share of the keys, or queries, that begin one; 0: a sequence is one document

  /// The options, with documents where there are several.
  AttentionOptions mask(Device device = kCpu) const {
    return documents > 0 ? with_documents(options, sizes, documents, device) : options;
  }
};

std::string name_of(const AttentionProblem& p) {
  const AttentionSizes& s = p.sizes;
  return to_string(Shape{s.batch, s.queries, s.keys, s.heads, s.kv_heads, s.head_dim}) +
         (p.options.causal ? " causal" : " full") +
         (p.options.window > 0 ? " window " + std::to_string(p.options.window) : "") +
         (p.documents > 0 ? " documents " + std::to_string(p.documents) : "") +
         (p.options.dropout > 0 ? " dropout " + std::to_string(p.options.dropout) : "");
}

// Small enough for differences element by element.
const std::vector<AttentionProblem> small_problems = {
    {{1, 1, 1, 1, 1, 1}, {.causal = true}},
    {{2, 3, 3, 2, 2, 5}, {.causal = true}},
    {{1, 7, 7, 4, 2, 3}, {.causal = false}},
    {{1, 4, 9, 3, 1, 4}, {.causal = true, .scale = 0.7, .query_offset = 5}},
    {{2, 5, 2, 2, 1, 2}, {.causal = true}},
    {{1, 0, 3, 2, 1, 4}, {.causal = false}},
    {{1, 7, 7, 2, 1, 3}, {.window = 3}},
    {{2, 4, 9, 2, 2, 4}, {.query_offset = 5, .window = 1}},
    {{2, 7, 7, 2, 1, 3}, {}, 0.3},
    {{2, 6, 8, 2, 2, 4}, {.query_offset = 2, .window = 3}, 0.3},
    {{2, 7, 7, 2, 1, 3}, {.causal = false}, 0.3},
    {{1, 5, 11, 2, 2, 4}, {.causal = false}, 0.4},
    {{2, 6, 4, 4, 2, 5}, {.causal = false}, 0.3},
    {{2, 3, 5, 4, 2, 4}, {.causal = false, .dropout = 0.4, .dropout_key = {7, 3}}},
    {{1, 4, 9, 2, 1, 3}, {.query_offset = 5, .window = 4, .dropout = 0.1, .dropout_key = {1, 1}}},
    {{2, 6, 7, 2, 2, 4}, {.causal = false, .dropout = 0.5, .dropout_key = {2, 9}}, 0.3},
};

Outputs reference_output(const AttentionInputs& in, const AttentionOptions& options) {
  return {Variable(reference_attention(in, options, zeros_like(in.q)).out)};
}

std::vector<Tensor> values_of(const Outputs& outputs) {
  std::vector<Tensor> values;
  for (const Variable& output : outputs) values.push_back(output.value());
  return values;
}

/// Every third gate is exactly zero: its pair is computed, but counts for nothing.
void zero_some_gates(const Tensor& gates) {
  for (std::int64_t i = 0; i < gates.numel(); i += 3) gates.data<double>()[i] = 0.0;
}

}  // namespace

OP_CASES(attention) {
  OpCases cases;
  for (const AttentionProblem& p : small_problems) {
    const AttentionInputs in = attention_inputs(p.sizes, -1);
    cases.push_back({.name = name_of(p),
                     .inputs = {in.q, in.k, in.v},
                     .run =
                         [p](const Inputs& x) {
                           return Outputs{attention(x[0], x[1], x[2], p.mask(x[0].value().device()))};
                         },
                     .reference =
                         [p](const std::vector<Tensor>& x) {
                           return values_of(reference_output({x[0], x[1], x[2], {}, {}}, p.mask()));
                         }});
  }
  return cases;
}

OP_CASES(head_sparse_attention) {
  OpCases cases;
  for (const AttentionProblem& p : small_problems) {
    for (double share : {0.0, 0.5, 1.0}) {
      const AttentionInputs in = attention_inputs(p.sizes, share);
      zero_some_gates(in.gates);
      cases.push_back(
          {.name = name_of(p) + " share " + std::to_string(share),
           .inputs = {in.q, in.k, in.v, in.gates},
           .run =
               [p, in](const Inputs& x) {
                 const HeadLists lists =
                     build_head_lists(in.selected.to(x[0].value().device()), p.sizes.kv_heads);
                 return Outputs{
                     head_sparse_attention(x[0], x[1], x[2], x[3], lists, p.mask(x[0].value().device()))};
               },
           .reference =
               [p, in](const std::vector<Tensor>& x) {
                 return values_of(reference_output({x[0], x[1], x[2], x[3], in.selected}, p.mask()));
               }});
    }
  }
  return cases;
}

namespace {

const std::vector<AttentionProblem> packed_problems = {
    {{2, 3, 3, 2, 2, 5}, {}},
    {{1, 7, 7, 4, 1, 3}, {}},
    {{2, 6, 6, 2, 1, 4}, {.causal = false}, 0.3},
    {{2, 5, 5, 4, 2, 3}, {.dropout = 0.3, .dropout_key = {4, 2}}}};

}  // namespace

OP_CASES(attention_packed) {
  OpCases cases;
  for (const AttentionProblem& p : packed_problems) {
    const AttentionInputs in = attention_inputs(p.sizes, -1);
    cases.push_back(
        {.name = name_of(p),
         .inputs = {pack_heads(in.q, in.k, in.v)},
         .run =
             [p](const Inputs& x) {
               return Outputs{
                   attention_packed(x[0], p.sizes.heads, p.sizes.kv_heads, p.mask(x[0].value().device()))};
             },
         .reference = [in,
                       p](const std::vector<Tensor>&) { return values_of(reference_output(in, p.mask())); }});
  }
  return cases;
}

OP_CASES(head_sparse_attention_packed) {
  OpCases cases;
  for (const AttentionProblem& p : packed_problems) {
    const AttentionInputs in = attention_inputs(p.sizes, 0.6);
    cases.push_back(
        {.name = name_of(p),
         .inputs = {pack_heads(in.q, in.k, in.v), in.gates},
         .run =
             [p, in](const Inputs& x) {
               const Device device = x[0].value().device();
               const HeadLists lists = build_head_lists(in.selected.to(device), p.sizes.kv_heads);
               return Outputs{head_sparse_attention_packed(x[0], x[1], lists, p.mask(device))};
             },
         .reference = [in,
                       p](const std::vector<Tensor>&) { return values_of(reference_output(in, p.mask())); }});
  }
  return cases;
}

namespace {

/// Output, then the gradients of q, k, v and gates, of the op under test.
std::vector<Tensor> run_op(const AttentionInputs& in, const AttentionOptions& options, const Tensor& dout,
                           DType dtype) {
  std::vector<Variable> x;
  for (const Tensor& tensor : {in.q, in.k, in.v}) x.emplace_back(tensor.to(dtype).clone(), true);
  Variable y;
  if (in.selected.defined()) {
    x.emplace_back(in.gates.to(accumulate_dtype(dtype)).clone(), true);
    y = head_sparse_attention(x[0], x[1], x[2], x[3], build_head_lists(in.selected, in.k.dim(2)), options);
  } else {
    y = attention(x[0], x[1], x[2], options);
  }
  y.backward(dout.to(dtype));
  std::vector<Tensor> results = {y.value()};
  for (const Variable& leaf : x) results.push_back(leaf.grad());
  return results;
}

double largest(const Tensor& x) {
  const Tensor wide = x.to(DType::kFloat64);
  double top = 0;
  for (double value : wide.span<double>()) top = std::max(top, std::abs(value));
  return top;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const Tensor x = a.to(DType::kFloat64), y = b.to(DType::kFloat64);
  double worst = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double difference = std::abs(x.data<double>()[i] - y.data<double>()[i]);
    worst = std::isnan(difference) ? HUGE_VAL : std::max(worst, difference);
  }
  return worst;
}

AttentionInputs rounded(AttentionInputs in, DType dtype) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) *x = x->to(dtype).to(DType::kFloat64);
  if (in.gates.defined()) in.gates = in.gates.to(DType::kFloat32).to(DType::kFloat64);
  return in;
}

/// Tokens [begin, begin + count) of x, whose batch is 1.
Tensor part_of(const Tensor& x, std::int64_t begin, std::int64_t count) {
  const Tensor part = x.select(0).slice(begin, begin + count);
  return part.rank() == 2 ? part.reshape({1, count, part.dim(1)})
                          : part.reshape({1, count, part.dim(1), part.dim(2)});
}

template <class Body>
void for_each_isa(const Body& body) {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    INFO("instruction set " << cpu_isa_name(isa));
    body();
  }
}

/// The op against plain loops, forward and backward, each tensor to within `tolerance` of its largest
/// element.
void check_against_reference(const AttentionProblem& p, double share, DType dtype, double tolerance) {
  INFO(name_of(p) << " share " << share << " " << dtype_name(dtype));
  const AttentionInputs in = rounded(attention_inputs(p.sizes, share), dtype);
  const Tensor dout = normal(in.q.shape(), 9).to(dtype).to(DType::kFloat64);
  const AttentionResult expected = reference_attention(in, p.mask(), dout);
  const std::vector<Tensor> wanted = {expected.out, expected.dq, expected.dk, expected.dv, expected.dgates};
  for_each_isa([&] {
    const std::vector<Tensor> found = run_op(in, p.mask(), dout, dtype);
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("tensor " << i << " of out, dq, dk, dv, dgates");
      CHECK(largest_difference(found[i], wanted[i]) <= tolerance * std::max(largest(wanted[i]), 1e-30));
    }
  });
}

// One past a block of keys (64) and of rows (48), odd widths, widths that fill vectors and that do not.
const std::vector<AttentionProblem> all_problems = {
    {{1, 65, 65, 2, 2, 64}, {.causal = true}},
    {{2, 49, 49, 2, 1, 24}, {.causal = false}},
    {{1, 97, 130, 2, 2, 72}, {.causal = true, .query_offset = 33}},
    {{1, 70, 70, 4, 2, 8}, {.causal = true}},
    {{1, 33, 129, 2, 1, 80}, {.causal = false}},
    {{1, 51, 51, 2, 2, 128}, {.causal = true}},
    {{1, 130, 130, 3, 1, 1}, {.causal = true}},
    {{3, 1, 100, 2, 2, 16}, {.causal = true, .query_offset = 70}},
    {{1, 20, 5, 2, 2, 40}, {.causal = true}},
    {{1, 9, 67, 8, 2, 256}, {.causal = false}},
    {{1, 500, 1030, 1, 1, 8}, {.causal = true, .query_offset = 530}},
    // Windows of two keys, that end within a block, at one and behind all keys; with several groups of keys.
    {{2, 135, 135, 2, 1, 8}, {.window = 2}},
    {{1, 135, 135, 2, 2, 72}, {.window = 37}},
    {{1, 140, 140, 4, 2, 16}, {.window = 64}},
    {{1, 70, 70, 2, 2, 24}, {.window = 71}},
    {{1, 500, 1030, 2, 1, 8}, {.query_offset = 530, .window = 200}},
    // Documents of about 4 and 70 tokens, alone and with a window.
    {{2, 135, 135, 4, 2, 24}, {}, 0.25},
    {{3, 300, 300, 2, 1, 8}, {}, 0.015},
    {{2, 135, 200, 2, 2, 16}, {.query_offset = 65, .window = 50}, 0.03},
    // Ranges of keys without a causal mask: short and long ones, of fewer keys and of more, in several
    // groups.
    {{2, 135, 135, 4, 2, 24}, {.causal = false}, 0.25},
    {{3, 140, 300, 2, 1, 8}, {.causal = false}, 0.02},
    {{1, 300, 75, 2, 2, 72}, {.causal = false}, 0.05},
    {{2, 260, 1030, 2, 1, 16}, {.causal = false}, 0.01},
    // Dropout: of whole and of partly seen blocks of keys, in several groups, with documents.
    {{2, 97, 97, 4, 2, 24}, {.dropout = 0.1, .dropout_key = {1, 2}}},
    {{1, 75, 131, 2, 2, 72}, {.causal = false, .dropout = 0.5, .dropout_key = {3, 4}}},
    {{1, 260, 1030, 2, 1, 16}, {.causal = false, .dropout = 0.3, .dropout_key = {5, 6}}, 0.01},
};

void check_against_reference(DType dtype, double tolerance) {
  for (const AttentionProblem& p : all_problems) {
    for (double share : {-1.0, 0.4}) check_against_reference(p, share, dtype, tolerance);
  }
  for (double share : {0.0, 1.0}) check_against_reference(all_problems[1], share, dtype, tolerance);
}

}  // namespace

TEST_CASE("ops: attention agrees with plain loops in float64", "[every_isa]") {
  check_against_reference(DType::kFloat64, 1e-12);
}

TEST_CASE("ops: attention agrees with plain loops in float32", "[every_isa]") {
  // A score of magnitude s is off by about s 2^-24, and so is the exponent of its probability.
  check_against_reference(DType::kFloat32, 2e-6);
}

TEST_CASE("ops: attention agrees with plain loops in bfloat16", "[every_isa]") {
  // Three roundings of 2^-9: the saved output, delta that is formed from it, and the result.
  check_against_reference(DType::kBFloat16, 1.6e-2);
}

TEST_CASE("ops: attention has the same bits with any number of threads") {
  const AttentionSizes sizes{2, 1030, 1030, 4, 2, 16};
  const int threads = num_threads();
  for (const AttentionProblem& p : {AttentionProblem{sizes, {.causal = true}},
                                    {sizes, {.window = 300}},
                                    {sizes, {}, 0.01},
                                    {sizes, {.causal = false}, 0.01},
                                    {sizes, {.dropout = 0.2, .dropout_key = {1, 2}}}}) {
    for (double share : {-1.0, 0.5}) {
      const AttentionInputs in = attention_inputs(p.sizes, share);
      const Tensor dout = normal(in.q.shape(), 9);
      set_num_threads(1);
      const std::vector<Tensor> one = run_op(in, p.mask(), dout, DType::kFloat32);
      for (const int count : kThreadCounts) {
        set_num_threads(count);
        const std::vector<Tensor> many = run_op(in, p.mask(), dout, DType::kFloat32);
        for (std::size_t i = 0; i < one.size(); ++i) {
          INFO(name_of(p) << ", " << count << " threads, tensor " << i);
          CHECK(std::memcmp(one[i].raw(), many[i].raw(), one[i].bytes()) == 0);
        }
      }
    }
  }
  set_num_threads(threads);
}

TEST_CASE("ops: head-sparse attention equals dense attention whose unselected gradients are masked",
          "[every_isa]") {
  const double dropout = GENERATE(0.0, 0.3);
  INFO("dropout " << dropout);
  for_each_isa([&] {
    const AttentionProblem p{{2, 150, 150, 4, 2, 32},
                             {.causal = true, .dropout = dropout, .dropout_key = {1, 2}}};
    AttentionInputs in = attention_inputs(p.sizes, 0.5);
    in.gates.fill(1.0);
    const Tensor dout = normal(in.q.shape(), 9), masked = dout.clone(), keep = zeros_like(dout);
    for (std::int64_t i = 0; i < masked.numel(); ++i) {
      const bool selected = in.selected.data<std::uint8_t>()[i / p.sizes.head_dim] != 0;
      masked.data<double>()[i] *= selected;
      keep.data<double>()[i] = selected;
    }
    const std::vector<Tensor> sparse = run_op(in, p.options, dout, DType::kFloat32);
    const std::vector<Tensor> dense = run_op({in.q, in.k, in.v, {}, {}}, p.options, masked, DType::kFloat32);
    // Rows do not depend on the tile that they are computed in.
    for (std::int64_t i = 0; i < masked.numel(); ++i) {
      const bool selected = keep.data<double>()[i] != 0.0;
      if (sparse[0].data<float>()[i] != (selected ? dense[0].data<float>()[i] : 0.0F)) FAIL("output " << i);
      if (sparse[1].data<float>()[i] != (selected ? dense[1].data<float>()[i] : 0.0F)) FAIL("dq " << i);
    }
    for (std::size_t i : {2, 3}) CHECK(largest_difference(sparse[i], dense[i]) <= 2e-6 * largest(dense[i]));
  });
}

TEST_CASE("ops: attention over packed sentences equals each sentence's alone") {
  // Targets of 3, 1, 90 and 7 tokens, each with the source sentence of its number.
  const std::vector<std::int64_t> targets = {3, 1, 90, 7}, sources = {5, 70, 20, 1};
  for (const double share : {-1.0, 0.6}) {
    const AttentionInputs in = attention_inputs({1, 101, 96, 4, 2, 24}, share);
    const Tensor dout = normal(in.q.shape(), 9);
    const Tensor starts = empty({1, 101}, DType::kInt32), ends = empty({1, 101}, DType::kInt32);
    std::int64_t query = 0, key = 0;
    for (std::size_t i = 0; i < targets.size(); key += sources[i++]) {
      for (const std::int64_t end = query + targets[i]; query < end; ++query) {
        starts.data<std::int32_t>()[query] = static_cast<std::int32_t>(key);
        ends.data<std::int32_t>()[query] = static_cast<std::int32_t>(key + sources[i]);
      }
    }
    const std::vector<Tensor> packed = run_op(
        in, {.causal = false, .document_starts = starts, .document_ends = ends}, dout, DType::kFloat64);
    query = key = 0;
    for (std::size_t i = 0; i < targets.size(); query += targets[i], key += sources[i++]) {
      INFO("sentence " << i << ", share " << share);
      const auto of_target = [&](const Tensor& x) { return x.defined() ? part_of(x, query, targets[i]) : x; };
      const auto of_source = [&](const Tensor& x) { return part_of(x, key, sources[i]); };
      const std::vector<Tensor> alone = run_op(
          {of_target(in.q), of_source(in.k), of_source(in.v), of_target(in.gates), of_target(in.selected)},
          {.causal = false}, of_target(dout), DType::kFloat64);
      for (std::size_t j = 0; j < alone.size(); ++j) {
        const bool of_keys = j == 2 || j == 3;
        CHECK(largest_difference(of_keys ? of_source(packed[j]) : of_target(packed[j]), alone[j]) <= 1e-13);
      }
    }
  }
}

TEST_CASE("ops: attention of large scores neither overflows nor loses the row") {
  const AttentionProblem p{{1, 80, 80, 2, 2, 16}, {.causal = true, .scale = 3e3}};
  const AttentionInputs in = rounded(attention_inputs(p.sizes, -1), DType::kFloat32);
  const std::vector<Tensor> found = run_op(in, p.options, zeros_like(in.q), DType::kFloat32);
  const AttentionResult expected = reference_attention(in, p.options, zeros_like(in.q));
  // A score of 1e5 is known to 2^-7: rows whose two best scores are closer than that may mix them
  // differently.
  std::int64_t close = 0;
  for (std::int64_t i = 0; i < found[0].numel(); ++i) {
    REQUIRE(std::isfinite(found[0].data<float>()[i]));
    close += std::abs(found[0].data<float>()[i] - expected.out.data<double>()[i]) < 0.02;
  }
  CHECK(close >= found[0].numel() * 98 / 100);
}

TEST_CASE("ops: attention drops the weights that the key says, after the softmax, and as often as asked") {
  // Equal scores, and values that are unit vectors: outputs are the weights.
  const AttentionSizes sizes{2, 70, 67, 4, 2, 67};
  AttentionInputs in = attention_inputs(sizes, -1);
  in.q.fill(0.0);
  in.v.fill(0.0);
  for (std::int64_t i = 0; i < 2 * 67 * 2; ++i) in.v.data<double>()[i * 67 + i / 2 % 67] = 1.0;
  for (const double p : {0.1, 0.5, 0.9}) {
    INFO("dropout " << p);
    const AttentionOptions options{.causal = false, .dropout = p, .dropout_key = {11, 5}};
    const Tensor out = run_op(in, options, zeros_like(in.q), DType::kFloat64)[0];
    std::int64_t kept = 0, wrong = 0;
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      const std::int64_t s = i % 67, h = i / 67 % 4, t = i / 67 / 4 % 70, b = i / 67 / 4 / 70;
      const double expected = kept_factor(options, sizes, {b, h, t, s}) / 67;
      wrong += std::abs(out.data<double>()[i] - expected) > 1e-14;
      kept += out.data<double>()[i] > 0;
    }
    CHECK(wrong == 0);
    const auto count = static_cast<double>(out.numel());
    CHECK(std::abs(static_cast<double>(kept) - (1 - p) * count) < 5 * std::sqrt(p * (1 - p) * count));
    // Neighbouring rows and heads are dropped independently of each other.
    for (const std::int64_t distance : {67, 4 * 67}) {
      std::int64_t both = 0;
      for (std::int64_t i = distance; i < out.numel(); ++i)
        both += out.data<double>()[i] > 0 && out.data<double>()[i - distance] > 0;
      const double share = (1 - p) * (1 - p);
      CHECK(std::abs(static_cast<double>(both) - share * count) < 6 * std::sqrt(count * share));
    }
    CHECK(largest_difference(run_op(in, {.causal = false, .dropout = p, .dropout_key = {11, 6}},
                                    zeros_like(in.q), DType::kFloat64)[0],
                             out) > 0.0);
  }
}

TEST_CASE("ops: attention passes NaN on to the queries that see it, and to no others") {
  const AttentionInputs in = attention_inputs({1, 70, 70, 1, 1, 8}, -1);
  in.k.data<double>()[66 * 8] = std::numeric_limits<double>::quiet_NaN();
  const Tensor out = run_op(in, {.causal = true}, zeros_like(in.q), DType::kFloat32)[0];
  for (std::int64_t t = 0; t < 70; ++t) {
    INFO("token " << t);
    CHECK(std::isnan(out.data<float>()[t * 8]) == (t >= 66));
  }
}

TEST_CASE("ops: attention's workspace grows linearly with the number of tokens") {
  const auto peak_of = [](std::int64_t tokens) {
    const AttentionInputs in = attention_inputs({1, tokens, tokens, 1, 1, 4}, -1);
    CpuAllocator::instance().reset_peaks();
    const std::int64_t before = CpuAllocator::instance().stats().of(MemoryPurpose::kWorkspace).current_bytes;
    run_op(in, {}, normal(in.q.shape()), DType::kFloat32);
    return CpuAllocator::instance().stats().of(MemoryPurpose::kWorkspace).peak_bytes - before;
  };
  // Lengths at which the number of key ranges has reached its bound; T x T would be 4. Block sizes are
  // rounded.
  const std::int64_t small = peak_of(4096), large = peak_of(8192);
  CHECK(small > 0);
  CHECK(large <= 2.3 * static_cast<double>(small));
}

TEST_CASE("ops: documents and windows refuse what does not fit") {
  const Variable q(normal({2, 3, 4, 8})), k(normal({2, 3, 2, 8}));
  const auto starts = [](const std::vector<std::int32_t>& values) {
    const Tensor tensor = empty({2, 3}, DType::kInt32);
    std::copy(values.begin(), values.end(), tensor.data<std::int32_t>());
    return AttentionOptions{.document_starts = tensor};
  };
  CHECK_NOTHROW(attention(q, k, k, starts({0, 1, 1, 0, 0, 2})));
  CHECK_THROWS_WITH(attention(q, k, k, starts({0, 1, 1, 0, 2, 2})),
                    "attention: document_starts[1, 1]: expected 0 to 1, found 2");
  CHECK_THROWS_WITH(attention(q, k, k, starts({0, 1, 0, 0, 1, 2})),
                    "attention: document_starts[0, 2]: expected 1 to 2, found 0");
  CHECK_THROWS_AS(attention(q, k, k, {.document_starts = zeros({2, 3}, DType::kInt64)}), DTypeError);
  CHECK_THROWS_AS(attention(q, k, k, {.document_starts = zeros({2, 4}, DType::kInt32)}), ShapeError);
  CHECK_THROWS_WITH(attention(q, k, k, {.window = -1}),
                    "attention: window: expected at least 1 key, or 0 for none, found -1");
  CHECK_THROWS_WITH(attention(q, k, k, {.causal = false, .window = 2}),
                    "attention: window and documents: expected a causal mask, or document_ends, found one "
                    "without causal");
  CHECK_THROWS_WITH(attention(q, k, k, {.query_offset = 1, .window = 2}),
                    "attention: window and documents: expected a key at the position of each query, found 3 "
                    "keys, queries up to position 3");
}

TEST_CASE("ops: ranges of keys refuse what does not fit") {
  const Variable q(normal({2, 3, 4, 8})), k(normal({2, 5, 2, 8}));
  const auto ranges = [](const std::vector<std::int32_t>& starts, const std::vector<std::int32_t>& ends) {
    const auto tensor = [](const std::vector<std::int32_t>& values) {
      Tensor of = empty({2, 3}, DType::kInt32);
      std::copy(values.begin(), values.end(), of.data<std::int32_t>());
      return of;
    };
    return AttentionOptions{.causal = false,
                            .document_starts = starts.empty() ? Tensor() : tensor(starts),
                            .document_ends = tensor(ends)};
  };
  CHECK_NOTHROW(attention(q, k, k, ranges({0, 1, 4, 0, 0, 2}, {1, 4, 5, 5, 5, 5})));
  CHECK_NOTHROW(attention(q, k, k, ranges({}, {1, 4, 5, 2, 2, 2})));
  CHECK_THROWS_WITH(attention(q, k, k, ranges({}, {1, 4, 5, 0, 2, 2})),
                    "attention: document_ends[1, 0]: expected 1 to 5, found 0");
  CHECK_THROWS_WITH(attention(q, k, k, ranges({}, {1, 4, 3, 2, 2, 2})),
                    "attention: document_ends[0, 2]: expected 4 to 5, found 3");
  CHECK_THROWS_WITH(attention(q, k, k, ranges({}, {1, 4, 6, 2, 2, 2})),
                    "attention: document_ends[0, 2]: expected 4 to 5, found 6");
  CHECK_THROWS_WITH(attention(q, k, k, ranges({0, 0, 3, 0, 0, 0}, {3, 3, 3, 2, 2, 2})),
                    "attention: document_ends[0, 2]: expected 4 to 5, found 3");
  CHECK_THROWS_WITH(attention(q, k, k, ranges({0, 0, 5, 0, 0, 0}, {3, 3, 5, 2, 2, 2})),
                    "attention: document_starts[0, 2]: expected 0 to 4, found 5");
  CHECK_THROWS_WITH(attention(q, k, k, ranges({-1, 0, 0, 0, 0, 0}, {3, 3, 3, 2, 2, 2})),
                    "attention: document_starts[0, 0]: expected 0 to 4, found -1");
  AttentionOptions options = ranges({}, {1, 4, 5, 2, 2, 2});
  options.causal = true;
  CHECK_THROWS_WITH(attention(q, k, k, options),
                    "attention: document_ends: expected attention without a causal mask, found a causal one");
  options.causal = false;
  options.window = 2;
  CHECK_THROWS_WITH(attention(q, k, k, options),
                    "attention: document_ends: expected no window, found 2 keys");
  CHECK_THROWS_AS(attention(q, k, k, {.causal = false, .document_ends = full({2, 3}, 1, DType::kInt64)}),
                  DTypeError);
  CHECK_THROWS_AS(attention(q, k, k, {.causal = false, .document_ends = full({2, 5}, 1, DType::kInt32)}),
                  ShapeError);
}

TEST_CASE("ops: attention refuses what does not fit") {
  const auto leaf = [](const Shape& shape) { return Variable(normal(shape)); };
  const Variable q = leaf({2, 3, 4, 8}), k = leaf({2, 3, 2, 8});
  CHECK_THROWS_WITH(attention(q, leaf({2, 3, 3, 8}), leaf({2, 3, 3, 8}), {}),
                    "attention: heads: expected a multiple of the KV heads, found 4 heads, 3 KV heads");
  CHECK_THROWS_WITH(attention(q, k, leaf({2, 4, 2, 8}), {}),
                    "attention: v: expected shape [2, 3, 2, 8] (that of k), found [2, 4, 2, 8]");
  CHECK_THROWS_WITH(attention(q, leaf({2, 0, 2, 8}), leaf({2, 0, 2, 8}), {}),
                    "attention: keys: expected at least one, found none");
  CHECK_THROWS_AS(attention(q, Variable(k.value().to(DType::kFloat32)), k, {}), DTypeError);
  CHECK_THROWS_AS(attention(q, k, k, {.scale = -1.0}), ValueError);
  CHECK_THROWS_AS(attention(q, k, k, {.query_offset = -1}), ValueError);
  CHECK_THROWS_WITH(attention(q, k, k, {.dropout = 1.0}),
                    "attention: dropout: expected 0 or more and below 1, found 1.000000");
  CHECK_THROWS_AS(attention(q, k, k, {.dropout = -0.1}), ValueError);
  CHECK_THROWS_AS(attention(q, k, k, {.dropout = std::nan("")}), ValueError);
  CHECK_THROWS_AS(attention(leaf({1, 1, 1, 257}), leaf({1, 1, 1, 257}), leaf({1, 1, 1, 257}), {}),
                  ShapeError);
  CHECK_THROWS_AS(attention_packed(leaf({1, 3, 9, 8}), 4, 2, {}), ShapeError);
  const HeadLists lists = build_head_lists(full({2, 3, 4}, 1, DType::kUInt8), 4);
  CHECK_THROWS_WITH(
      head_sparse_attention(q, k, k, leaf({2, 3, 4}), lists, {}),
      "head_sparse_attention: lists: batch, tokens, heads, KV heads: expected [2, 3, 4, 2], found "
      "[2, 3, 4, 4]");
  CHECK_THROWS_AS(head_sparse_attention(q, k, k, leaf({2, 3, 2}), lists, {}), ShapeError);
}
