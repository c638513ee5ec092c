// The kernels by pointer: strided views, and nothing written outside of them.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/loop_shares.h"
#include "ops/attention/attention_run.h"
#include "ops/attention/operands.h"
#include "ops/op.h"
#include "tests/ops/attention/reference.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kGuard = 64;     // elements before and behind
constexpr std::int64_t kTokenGap = 5;   // between tokens
constexpr std::int64_t kBatchGap = 11;  // between sequences

/// A [B, T, heads, d] array with gaps everywhere, all of it filled with `filler` before `values` go in.
template <class T>
class Strided {
 public:
  Strided(const Shape& shape, T filler)
      : shape_(shape),
        token_(shape[2] * shape[3] + kTokenGap),
        batch_(shape[1] * token_ + kBatchGap),
        filler_(filler),
        data_(static_cast<std::size_t>(2 * kGuard + shape[0] * batch_), filler) {}
  Strided(const Tensor& values, T filler) : Strided(values.shape(), filler) {
    const Tensor converted = values.to(dtype_of<T>());
    for_each([&](std::int64_t i, T& element) { element = converted.data<T>()[i]; });
  }

  template <class Element>
  HeadView<Element> view() {
    return {data_.data() + kGuard, batch_, token_, shape_[3]};
  }
  Tensor values() {
    Tensor result = empty(shape_, dtype_of<T>());
    for_each([&](std::int64_t i, T& element) { result.data<T>()[i] = element; });
    return result;
  }
  bool gaps_untouched() {
    std::vector<T> gaps = data_;
    for_each(
        [&](std::int64_t, T& element) { gaps[static_cast<std::size_t>(&element - data_.data())] = filler_; });
    const std::vector<T> expected(data_.size(), filler_);
    return std::memcmp(gaps.data(), expected.data(), gaps.size() * sizeof(T)) == 0;
  }

 private:
  template <class Visit>
  void for_each(const Visit& visit) {
    const std::int64_t row = shape_[2] * shape_[3];
    for (std::int64_t i = 0; i < shape_.numel(); ++i) {
      const std::int64_t t = i / row;
      visit(i, data_[kGuard + t / shape_[1] * batch_ + t % shape_[1] * token_ + i % row]);
    }
  }

  Shape shape_;
  std::int64_t token_, batch_;
  T filler_;
  std::vector<T> data_;
};

/// Per-row numbers with guards.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count) : data_(static_cast<std::size_t>(2 * kGuard + count), kFiller) {}
  T* data() { return data_.data() + kGuard; }
  bool guards_untouched() const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(kGuard); ++i) {
      if (data_[i] != kFiller || data_[data_.size() - 1 - i] != kFiller) return false;
    }
    return true;
  }

 private:
  static constexpr T kFiller = T(-12345);
  std::vector<T> data_;
};

template <class T>
void check_strided(const AttentionSizes& sizes, double share, bool causal) {
  INFO("share " << share << ", width " << sizes.head_dim << ", " << dtype_name(dtype_of<T>()));
  const AttentionInputs in = attention_inputs(sizes, share);
  const HeadLists lists = in.selected.defined() ? build_head_lists(in.selected, sizes.kv_heads) : HeadLists{};
  AttentionShape shape{sizes.batch, sizes.queries, sizes.keys, sizes.heads, sizes.kv_heads, sizes.head_dim};
  complete_shape("test", shape, kCpu, {.causal = causal});
  const Tensor gates = in.gates.defined() ? in.gates.to(accumulate_dtype(dtype_of<T>())) : Tensor();
  const Tensor dout_values = normal(in.q.shape(), 9);
  const std::int64_t pairs = sizes.batch * sizes.queries * sizes.heads;
  const T nan = T(std::nanf("")), sentinel = T(77.0F);

  // Gaps of inputs are NaN: reading one would show. Gaps of outputs keep what they held.
  Strided<T> q(in.q, nan), k(in.k, nan), v(in.v, nan), dout(dout_values, nan);
  Strided<T> out(in.q.shape(), sentinel), dq(in.q.shape(), sentinel), dk(in.k.shape(), sentinel),
      dv(in.k.shape(), sentinel);
  Guarded<Acc<T>> lse(lists.rows.defined() ? lists.num_rows() : pairs), dgates(pairs);

  AttentionForward<T> forward{shape, row_lists(lists), q.template view<const T>(), k.template view<const T>(),
                              v.template view<const T>()};
  forward.gates = gates.defined() ? gates.data<Acc<T>>() : nullptr;
  forward.out = out.template view<T>();
  forward.lse = lse.data();
  attention_forward(forward);

  AttentionBackward<T> backward{shape, row_lists(lists), forward.q, forward.k, forward.v};
  backward.out = out.template view<const T>();
  backward.dout = dout.template view<const T>();
  backward.gates = forward.gates;
  backward.lse = lse.data();
  backward.dq = dq.template view<T>();
  backward.dk = dk.template view<T>();
  backward.dv = dv.template view<T>();
  backward.dgates = gates.defined() ? dgates.data() : nullptr;
  attention_backward(backward);

  for (Strided<T>* output : {&out, &dq, &dk, &dv}) {
    CHECK(output->gaps_untouched());
    CHECK(output->values().all_finite());
  }
  CHECK(lse.guards_untouched());
  CHECK(dgates.guards_untouched());

  // Plain tensors give the same bits.
  const Variable pq(in.q.to(dtype_of<T>()), true), pk(in.k.to(dtype_of<T>()), true),
      pv(in.v.to(dtype_of<T>()), true);
  const AttentionOptions options{.causal = causal};
  const Variable plain = in.selected.defined()
                             ? head_sparse_attention(pq, pk, pv, Variable(gates), lists, options)
                             : attention(pq, pk, pv, options);
  CHECK(std::memcmp(out.values().raw(), plain.value().raw(), plain.value().bytes()) == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("ops: attention kernels touch nothing outside their views", "", float, bfloat16, double) {
  for (double share : {-1.0, 0.0, 0.5, 1.0}) {
    check_strided<TestType>({2, 51, 51, 4, 2, 24}, share, true);
    check_strided<TestType>({2, 7, 70, 2, 2, 19}, share, false);
    check_strided<TestType>({1, 3, 1027, 3, 1, 64}, share, false);  // nine groups of keys
  }
}

TEST_CASE("ops: attention's tasks cover every row and every key once") {
  const AttentionShape shape{2, 1100, 1100, 6, 3, 8, true};
  const Tensor selected = full({2, 1100, 6}, 1, DType::kUInt8);
  for (std::int64_t i = 0; i < 1100; ++i) selected.data<std::uint8_t>()[i * 6] = 0;  // uneven lists
  for (const HeadLists& lists : {HeadLists{}, build_head_lists(selected, 3)}) {
    const RowLists rows = row_lists(lists);
    for (int threads : {1, 2, 16}) {
      std::vector<std::int64_t> seen(6, 0);
      for (const RowTask& task : plan_rows(shape, rows, threads)) {
        CHECK(task.begin <= task.end);
        seen[static_cast<std::size_t>(task.list)] += task.end - task.begin;
      }
      for (std::int64_t l = 0; l < 6; ++l)
        CHECK(seen[static_cast<std::size_t>(l)] == list_at(shape, rows, l).rows);
    }
    for (int threads : {1, 2, 16, 100}) {
      const KeyGroups groups = key_groups(shape, threads);
      CHECK(groups.count == 9);  // whatever the threads: sums are in this order
      CHECK(groups.keys == 128);
      CHECK(groups.whole_lists == (threads <= 2));
      std::vector<std::int64_t> keys(6, 0);
      for (const KeyTask& task : plan_keys(shape, rows, groups, threads)) {
        CHECK(task.begin == task.group * groups.keys);
        keys[static_cast<std::size_t>(task.list)] += task.end - task.begin;
      }
      CHECK(keys == std::vector<std::int64_t>(6, 1100));
    }
  }
}

TEST_CASE("ops: attention's tasks begin with the most expensive of each thread's share") {
  const AttentionShape shape{1, 1024, 1024, 4, 4, 8, true};
  constexpr int kThreads = 3;
  const std::vector<KeyTask> tasks = plan_keys(shape, {}, key_groups(shape, kThreads), kThreads);
  const auto count = static_cast<std::int64_t>(tasks.size());
  REQUIRE(count == 32);
  for (int share = 0; share < kThreads; ++share) {
    const auto begin = LoopShares::begin(count, share, kThreads),
               end = LoopShares::begin(count, share + 1, kThreads);
    CHECK(tasks[static_cast<std::size_t>(begin)].begin == 0);  // seen by all rows
    for (std::int64_t i = begin + 1; i < end; ++i)
      CHECK(tasks[static_cast<std::size_t>(i)].begin >= tasks[static_cast<std::size_t>(i - 1)].begin);
  }
}

TEST_CASE("ops: attention's gradients have the same bits with tasks of whole lists and of groups of keys") {
  const Shape shape{1, 900, 2, 24};
  std::vector<Tensor> gradients;
  const int before = num_threads();
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    CHECK(key_groups({1, 900, 900, 2, 2, 24, true}, num_threads()).whole_lists == (threads == 1));
    std::vector<Variable> inputs;
    for (std::uint64_t i = 0; i < 3; ++i) inputs.emplace_back(normal(shape, 7 + i), true);
    const Variable out = attention(inputs[0], inputs[1], inputs[2], {.causal = true});
    out.backward(normal(shape, 20));
    for (const Variable& input : inputs) gradients.push_back(input.grad());
  }
  set_num_threads(before);
  REQUIRE(gradients.size() == 6);
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor &one = gradients[i], &two = gradients[i + 3];
    CHECK(std::memcmp(one.raw(), two.raw(), one.bytes()) == 0);
  }
}
