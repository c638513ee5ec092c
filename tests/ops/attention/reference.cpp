#include "tests/ops/attention/reference.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"
#include "core/random.h"
#include "tests/ops/op_cases.h"

namespace moh::test {

double kept_factor(const AttentionOptions& o, const AttentionSizes& of, const WeightPlace& at) {
  if (o.dropout == 0.0) return 1.0;
  const std::int64_t row = (at.b * of.heads + at.h) * of.queries + at.t, counters = (of.keys + 3) / 4;
  const auto words =
      philox(o.dropout_key.seed, static_cast<std::uint64_t>(row * counters + at.s / 4), o.dropout_key.stream);
  return words[static_cast<std::size_t>(at.s % 4)] / 0x1p32 >= o.dropout ? 1.0 / (1.0 - o.dropout) : 0.0;
}

AttentionInputs attention_inputs(const AttentionSizes& s, double share, std::uint64_t seed) {
  AttentionInputs in;
  in.q = normal({s.batch, s.queries, s.heads, s.head_dim}, seed);
  in.k = normal({s.batch, s.keys, s.kv_heads, s.head_dim}, seed + 1);
  in.v = normal({s.batch, s.keys, s.kv_heads, s.head_dim}, seed + 2);
  if (share < 0.0) return in;
  in.gates = uniform({s.batch, s.queries, s.heads}, 0.2, 1.8, seed + 3);
  in.selected = empty({s.batch, s.queries, s.heads}, DType::kUInt8);
  const Tensor draw = uniform({s.batch, s.queries, s.heads}, 0.0, 1.0, seed + 4);
  for (std::int64_t i = 0; i < draw.numel(); ++i) {
    in.selected.data<std::uint8_t>()[i] = draw.data<double>()[i] < share;
  }
  return in;
}

Tensor random_documents(const AttentionSizes& s, std::int64_t offset, double share, std::uint64_t seed) {
  Tensor starts = empty({s.batch, s.queries}, DType::kInt32);
  const Tensor draw = uniform({s.batch, offset + s.queries}, 0.0, 1.0, seed);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    std::int32_t start = 0;
    for (std::int64_t key = 0; key < offset + s.queries; ++key) {
      if (draw.data<double>()[b * draw.dim(1) + key] < share) start = static_cast<std::int32_t>(key);
      if (key >= offset) starts.data<std::int32_t>()[b * s.queries + key - offset] = start;
    }
  }
  return starts;
}

namespace {

/// Fills in document_starts and document_ends. On average a range begins as many keys after the one before as
/// it has, so that all together span the keys; many rows of few keys would test the rounding of sums.
void add_random_ranges(AttentionOptions& options, const AttentionSizes& s, double share) {
  options.document_starts = empty({s.batch, s.queries}, DType::kInt32);
  options.document_ends = empty({s.batch, s.queries}, DType::kInt32);
  const Tensor draw = uniform({s.batch * s.queries, 3}, 0.0, 1.0, 7);
  const double step = static_cast<double>(s.keys) / std::max(1.0, share * static_cast<double>(s.queries));
  std::int64_t begin = 0, end = 0;
  for (std::int64_t i = 0; i < s.batch * s.queries; ++i) {
    const double* const of_query = draw.data<double>() + 3 * i;
    if (i % s.queries == 0) begin = end = 0;
    if (i % s.queries == 0 || of_query[0] < share) {
      const auto least = std::max<std::int64_t>(1, static_cast<std::int64_t>(step / 2));
      begin = std::min(s.keys - least, begin + static_cast<std::int64_t>(of_query[1] * 2 * step));
      end = std::clamp(begin + least + static_cast<std::int64_t>(of_query[2] * step), end, s.keys);
    }
    options.document_starts.data<std::int32_t>()[i] = static_cast<std::int32_t>(begin);
    options.document_ends.data<std::int32_t>()[i] = static_cast<std::int32_t>(end);
  }
}

}  // namespace

AttentionOptions with_documents(AttentionOptions options, const AttentionSizes& sizes, double share,
                                Device device) {
  if (options.causal) {
    options.document_starts = random_documents(sizes, options.query_offset, share).to(device);
    return options;
  }
  add_random_ranges(options, sizes, share);
  options.document_starts = options.document_starts.to(device);
  options.document_ends = options.document_ends.to(device);
  return options;
}

namespace {

/// The key mask of its definition, key by key.
bool is_visible(const AttentionOptions& o, std::int64_t b, std::int64_t t, std::int64_t key) {
  const std::int64_t position = o.query_offset + t;
  const auto of_query = [&](const Tensor& x) { return x.data<std::int32_t>()[b * x.dim(1) + t]; };
  if (o.causal && (key > position || (o.window > 0 && key <= position - o.window))) return false;
  if (o.document_starts.defined() && key < of_query(o.document_starts)) return false;
  return !o.document_ends.defined() || key < of_query(o.document_ends);
}

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* to, double factor, const double* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

template <class Sees>
std::vector<double> probabilities(const double* q, const double* k, std::int64_t row, std::int64_t keys,
                                  const Sees& sees, double scale, std::int64_t d) {
  std::vector<double> p(static_cast<std::size_t>(keys));
  for (std::int64_t j = 0; j < keys; ++j) p[j] = sees(j) ? scale * dot(q, k + j * row, d) : -HUGE_VAL;
  const double top = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - top);
  for (double& x : p) x /= sum;
  return p;
}

/// Rows of a float64 tensor's last dimension.
class Rows {
 public:
  explicit Rows(const Tensor& x) : data_(x.data<double>()), columns_(x.dim(-1)) {}
  double* operator()(std::int64_t row) const { return data_ + row * columns_; }

 private:
  double* data_;
  std::int64_t columns_;
};

}  // namespace

AttentionResult reference_attention(const AttentionInputs& in, const AttentionOptions& options,
                                    const Tensor& dout) {
  const std::int64_t heads = in.q.dim(2), kv_heads = in.k.dim(2), keys = in.k.dim(1), d = in.q.dim(3);
  const double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<double>(d));
  AttentionResult result{zeros_like(in.q), zeros_like(in.q), zeros_like(in.k), zeros_like(in.v), {}};
  if (in.gates.defined()) result.dgates = zeros_like(in.gates);
  // Looked up once: a checked build takes longer to do so than to multiply a row.
  const Rows q(in.q), k(in.k), v(in.v), out(result.out), dq(result.dq), dk(result.dk), dv(result.dv),
      of_out(dout);
  for (std::int64_t row = 0; row < in.q.dim(0) * in.q.dim(1) * heads; ++row) {
    if (in.selected.defined() && in.selected.data<std::uint8_t>()[row] == 0) continue;
    const std::int64_t t = row / heads % in.q.dim(1), b = row / heads / in.q.dim(1);
    const std::int64_t first_key = b * keys * kv_heads + row % heads / (heads / kv_heads);
    const auto sees = [&](std::int64_t key) { return is_visible(options, b, t, key); };
    const std::vector<double> p = probabilities(q(row), k(first_key), kv_heads * d, keys, sees, scale, d);
    const double gate = in.gates.defined() ? in.gates.data<double>()[row] : 1.0;
    std::vector<double> kept(p.size());
    const AttentionSizes sizes{in.q.dim(0), in.q.dim(1), keys, heads, kv_heads, d};
    for (std::int64_t j = 0; j < keys; ++j) kept[j] = kept_factor(options, sizes, {b, row % heads, t, j});
    std::vector<double> head(static_cast<std::size_t>(d));
    for (std::int64_t j = 0; j < keys; ++j)
      add_scaled(head.data(), p[j] * kept[j], v(first_key + j * kv_heads), d);
    add_scaled(out(row), gate, head.data(), d);
    const double delta = dot(of_out(row), head.data(), d);
    if (in.gates.defined()) result.dgates.data<double>()[row] = delta;
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int64_t key = first_key + j * kv_heads;
      const double ds = p[j] * gate * (kept[j] * dot(of_out(row), v(key), d) - delta) * scale;
      add_scaled(dq(row), ds, k(key), d);
      add_scaled(dk(key), ds, q(row), d);
      add_scaled(dv(key), p[j] * kept[j] * gate, of_out(row), d);
    }
  }
  return result;
}

Tensor pack_heads(const Tensor& q, const Tensor& k, const Tensor& v) {
  Tensor packed = empty({q.dim(0), q.dim(1), q.dim(2) + 2 * k.dim(2), q.dim(3)}, q.dtype());
  const std::size_t element = dtype_size(q.dtype());
  auto* to = static_cast<std::byte*>(packed.raw());
  for (std::int64_t row = 0; row < q.dim(0) * q.dim(1); ++row) {
    for (const Tensor* part : {&q, &k, &v}) {
      const std::size_t bytes = static_cast<std::size_t>(part->dim(2) * part->dim(3)) * element;
      to = std::copy_n(static_cast<const std::byte*>(part->raw()) + static_cast<std::size_t>(row) * bytes,
                       bytes, to);
    }
  }
  return packed;
}

}  // namespace moh::test
