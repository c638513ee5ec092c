#include "ops/attention/operands.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/dry_run.h"
#include "ops/attention/list_walk.h"
#include "ops/op.h"

namespace moh {

namespace {

void check_same_device(std::string_view op, std::string_view name, const Tensor& tensor, Device device) {
  if (tensor.device() != device)
    throw DeviceError(error_message(op, name, device_name(device), device_name(tensor.device())));
}

/// The values of [B, T], the ends of key ranges, must ascend in t, from first(i) to last(i) for element i.
template <class First, class Last>
void check_values_of(std::string_view op, const std::string& name, const AttentionShape& s,
                     const std::int32_t* values, const First& first, const Last& last) {
  for (std::int64_t i = 0; i < s.batch * s.queries; ++i) {
    const std::int64_t t = i % s.queries, before = t == 0 ? 0 : values[i - 1],
                       least = std::max<std::int64_t>(before, first(i)), most = last(i);
    if (values[i] >= least && values[i] <= most) continue;
    Check(op).require(false, name + "[" + std::to_string(i / s.queries) + ", " + std::to_string(t) + "]",
                      std::to_string(least) + " to " + std::to_string(most), std::to_string(values[i]));
  }
}

/// The starts of documents must ascend and not lie after their queries, or leave them a key; the ends must
/// ascend, too, and lie after the starts.
void check_documents(std::string_view op, const AttentionShape& s) {
  if (s.document_starts != nullptr) {
    check_values_of(
        op, "document_starts", s, s.document_starts, [](std::int64_t) { return 0; },
        [&](std::int64_t i) { return s.causal ? s.query_offset + i % s.queries : s.keys - 1; });
  }
  if (s.document_ends != nullptr) {
    check_values_of(
        op, "document_ends", s, s.document_ends,
        [&](std::int64_t i) { return s.document_starts ? s.document_starts[i] + 1 : 1; },
        [&](std::int64_t) { return s.keys; });
  }
}

/// The values of `tensor`, one per query, or none if it is undefined.
const std::int32_t* per_query(std::string_view op, std::string_view name, const Tensor& tensor,
                              const AttentionShape& s, Device device) {
  if (!tensor.defined()) return nullptr;
  Check(op).dtype(name, Variable(tensor), DType::kInt32).shape(name, Variable(tensor), {s.batch, s.queries});
  check_same_device(op, name, tensor, device);
  Check(op).require(tensor.numel() < std::int64_t{1} << 31, name, "fewer than 2^31 elements",
                    std::to_string(tensor.numel()));
  return tensor.data<std::int32_t>();
}

/// A mask that ends with the query's position, or else with the end of its document.
void check_kind_of_mask(std::string_view op, const AttentionShape& s, const AttentionOptions& options) {
  if (options.document_ends.defined()) {
    Check(op)
        .require(!options.causal, "document_ends", "attention without a causal mask", "a causal one")
        .require(options.window == 0, "document_ends", "no window", std::to_string(options.window) + " keys");
    return;
  }
  if (options.window == 0 && !options.document_starts.defined()) return;
  Check(op)
      .require(options.causal, "window and documents", "a causal mask, or document_ends",
               "one without causal")
      .require(s.query_offset + s.queries <= s.keys, "window and documents",
               "a key at the position of each query",
               std::to_string(s.keys) + " keys, queries up to position " +
                   std::to_string(s.query_offset + s.queries - 1));
}

void add_mask(std::string_view op, AttentionShape& s, Device device, const AttentionOptions& options) {
  s.causal = options.causal;
  s.query_offset = options.query_offset;
  s.window = options.window;
  Check(op).require(options.window >= 0, "window", "at least 1 key, or 0 for none",
                    std::to_string(options.window));
  check_kind_of_mask(op, s, options);
  s.document_starts = per_query(op, "document_starts", options.document_starts, s, device);
  s.document_ends = per_query(op, "document_ends", options.document_ends, s, device);
  if (device == kCpu && !dry_run()) check_documents(op, s);
}

}  // namespace

void complete_shape(std::string_view op, AttentionShape& s, Device device, const AttentionOptions& options) {
  Check(op)
      .require(s.heads >= 1 && s.kv_heads >= 1 && s.heads % s.kv_heads == 0, "heads",
               "a multiple of the KV heads",
               std::to_string(s.heads) + " heads, " + std::to_string(s.kv_heads) + " KV heads")
      .require(s.head_dim >= 1 && s.head_dim <= kMostHeadDim, "head width",
               "1 to " + std::to_string(kMostHeadDim), std::to_string(s.head_dim))
      .require(s.keys >= 1 || s.batch * s.queries == 0, "keys", "at least one", "none")
      .in_range("scale", options.scale, 0.0, 1e30)
      .in_range("query_offset", static_cast<double>(options.query_offset), 0.0, 0x1p62);
  add_mask(op, s, device, options);
  s.dropout = dropout_mask(op, "dropout", options.dropout, options.dropout_key, device);
  s.scale = options.scale > 0.0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(s.head_dim));
}

void divide_sequences(std::string_view op, AttentionShape& s, Device device,
                      const AttentionOptions& options) {
  const Tensor& offsets = options.sequences.offsets;
  Check(op)
      .dtype("sequences", Variable(offsets), DType::kInt64)
      .rank("sequences", Variable(offsets), 1)
      .require(
          s.batch == 1 && s.queries == s.keys && s.query_offset == 0, "sequences",
          "one batch of as many queries as keys",
          std::to_string(s.batch) + " of " + std::to_string(s.queries) + " and " + std::to_string(s.keys))
      .require(s.heads == s.kv_heads && s.window == 0 && options.document_starts.defined() && s.causal,
               "sequences", "document_starts in place of a window, and as many KV heads as heads", "others");
  Check(op).require(options.dropout == 0.0, "sequences", "no dropout", std::to_string(options.dropout));
  check_same_device(op, "sequences", offsets, device);
  if (device != kCpu) return;
  const std::int64_t count = offsets.dim(0) - 1, tokens = s.queries;
  s.batch = count;
  s.queries = s.keys = options.sequences.longest;
  if (dry_run()) return;
  const auto* begins = offsets.data<std::int64_t>();
  Check(op).require(count >= 0 && begins[0] == 0 && begins[count] == tokens, "sequences",
                    "offsets from 0 to the " + std::to_string(tokens) + " tokens", "others");
  s.queries = s.keys = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = begins[i + 1] - begins[i];
    const bool has_starts = length <= 0 || s.document_starts[begins[i]] >= begins[i];
    Check(op).require(length >= 0 && has_starts, "sequences",
                      "ascending offsets, and document_starts not before them",
                      "others (sequence " + std::to_string(i) + ")");
    s.queries = s.keys = std::max(s.keys, length);
  }
  s.offsets = begins;
}

void check_lists(std::string_view op, const AttentionShape& s, Device device, const Variable& gates,
                 const HeadLists& lists) {
  Check(op).floating("gates", gates).shape("gates", gates, {s.batch, s.queries, s.heads});
  MOH_CHECK(lists.rows.defined() && lists.offsets.defined(), "head lists are built by build_head_lists");
  check_same_device(op, "gates", gates.value(), device);
  check_same_device(op, "lists", lists.rows, device);
  const Shape expected{s.batch, s.queries, s.heads, s.kv_heads};
  const Shape found{lists.batch, lists.tokens, lists.heads, lists.kv_heads};
  Check(op).require(expected == found, "lists: batch, tokens, heads, KV heads", to_string(expected),
                    to_string(found));
}

namespace {

/// The keys that a query sees on average.
double mean_visible_keys(const AttentionShape& s, bool knows_documents) {
  const bool has_documents = s.document_starts != nullptr || s.document_ends != nullptr;
  if (has_documents && knows_documents) {
    double pairs = 0;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t queries = s.offsets ? s.offsets[b + 1] - s.offsets[b] : s.queries;
      for (std::int64_t t = 0; t < queries; ++t) pairs += static_cast<double>(visible_keys(s, b, t).size());
    }
    const std::int64_t all = s.offsets ? s.offsets[s.batch] : s.batch * s.queries;
    return pairs / static_cast<double>(std::max<std::int64_t>(all, 1));
  }
  if (!s.causal) return static_cast<double>(s.keys);
  const auto sum_of = [](std::int64_t first, std::int64_t last) {  // first + ... + last
    return static_cast<double>(first + last) * static_cast<double>(last - first + 1) / 2;
  };
  const std::int64_t first = s.query_offset + 1, last = s.query_offset + s.queries;  // without a window
  if (s.window == 0 || s.window >= last) return static_cast<double>(first + last) / 2;
  const std::int64_t growing = clamp(s.window - first, 0, s.queries);  // queries that see less than a window
  return (sum_of(first, first + growing - 1) + static_cast<double>((s.queries - growing) * s.window)) /
         static_cast<double>(s.queries);
}

}  // namespace

double attention_flops(const AttentionShape& s, Device device, std::int64_t rows, double mean_visible) {
  const bool knows_documents = device == kCpu && !dry_run();
  const double keys =
      mean_visible > 0 && !knows_documents ? mean_visible : mean_visible_keys(s, knows_documents);
  return 4 * static_cast<double>(rows) * keys * static_cast<double>(s.head_dim);
}

RowLists row_lists(const HeadLists& lists) {
  if (!lists.rows.defined()) return {};
  return {lists.rows.data<std::int32_t>(), lists.offsets.data<std::int64_t>()};
}

}  // namespace moh
