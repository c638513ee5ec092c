#include "models/layers/kv_heads_read.h"

#include <catch2/catch.hpp>

#include "models/layers/routers.h"

namespace moh {
namespace {

HeadRoutingOptions routing(std::int64_t heads, std::int64_t shared, std::int64_t top_k) {
  HeadRoutingOptions options;
  options.kind = routers::kLearned;
  options.router.heads = heads;
  options.router.num_shared = shared;
  options.router.top_k = top_k;
  return options;
}

TEST_CASE("kv heads read: a dense layer reads all of them") {
  CHECK(kv_heads_read({}, 8) == 8);
}

TEST_CASE("kv heads read: with a KV head for each query head, those of the active heads") {
  CHECK(kv_heads_read(routing(12, 4, 2), 12) == Approx(6));
  CHECK(kv_heads_read(routing(12, 0, 1), 12) == Approx(1));
}

// 8 heads, 2 for each of 4 KV heads, of which a token keeps 2: C(6, 2) / C(8, 2) = 15 / 28 of the pairs
// leave a KV head out.
TEST_CASE("kv heads read: a KV head is left out by tokens that keep none of its heads") {
  CHECK(kv_heads_read(routing(8, 0, 2), 4) == Approx(4 * (1 - 15.0 / 28)));
}

TEST_CASE("kv heads read: a shared head reads its keys and values for every token") {
  HeadRoutingOptions options = routing(8, 1, 2);
  // The 7 routed heads: one beside the shared head, and pairs of the other KV heads, left out by C(5, 2) of
  // the C(7, 2) selections.
  CHECK(kv_heads_read(options, 4) == Approx(1 + 3 * (1 - 10.0 / 21)));
  options.shared_heads = {5};
  CHECK(kv_heads_read(options, 4) == Approx(1 + 3 * (1 - 10.0 / 21)));
}

TEST_CASE("kv heads read: whole groups are read or not, and groups within which heads are kept all are") {
  HeadRoutingOptions groups = routing(8, 2, 2);
  groups.unit_heads = 4;
  CHECK(kv_heads_read(groups, 8) == Approx(4));
  HeadRoutingOptions within = routing(16, 0, 4);
  within.router.groups = 4;
  CHECK(kv_heads_read(within, 4) == Approx(4));
}

}  // namespace
}  // namespace moh
