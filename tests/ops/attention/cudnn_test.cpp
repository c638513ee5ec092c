#include "ops/attention/cudnn/cudnn_attention.h"

#include <catch2/catch.hpp>

#include "core/math_mode.h"
#include "core/tensor.h"
#include "ops/attention/operands.h"
#include "tests/support/skip.h"

using namespace moh;

namespace {

/// A call as attention_packed() makes it, without data.
AttentionForward<bfloat16> call(const AttentionShape& shape) {
  const std::int64_t d = shape.head_dim, token = (shape.heads + 2 * shape.kv_heads) * d;
  AttentionForward<bfloat16> args{.shape = shape};
  args.q = {nullptr, shape.keys * token, token, d};
  args.k = args.v = args.q;
  args.out = {nullptr, shape.queries * shape.heads * d, shape.heads * d, d};
  return args;
}

AttentionShape shape(std::int64_t head_dim, bool causal) {
  return {.batch = 2,
          .queries = 256,
          .keys = 256,
          .heads = 8,
          .kv_heads = 2,
          .head_dim = head_dim,
          .causal = causal,
          .scale = 0.125};
}

}  // namespace

TEST_CASE("ops: cuDNN takes the graphs of attention and of its gradients", "[toolkit]") {
  const std::string absent = CudnnAttention::graph_error(call(shape(64, false)), false, 90);
  if (absent.find("this build has no cuDNN") != std::string::npos ||
      absent.find("LD_LIBRARY_PATH") != std::string::npos) {
    MOH_SKIP(absent);
  }
  for (const int capability : {80, 90}) {
    for (const std::int64_t head_dim : {24, 64, 72, 96, 128}) {
      for (const bool causal : {false, true}) {
        INFO(capability << ", heads of " << head_dim << (causal ? ", causal" : ", full"));
        const AttentionForward<bfloat16> args = call(shape(head_dim, causal));
        CHECK_THAT(CudnnAttention::graph_error(args, false, capability), Catch::Equals(""));
        for (const bool deterministic : {true, false}) {
          const MathModeScope mode({.deterministic_attention = deterministic});
          CHECK_THAT(CudnnAttention::graph_error(args, true, capability), Catch::Equals(""));
        }
      }
    }
  }
  AttentionShape odd = shape(64, true);
  odd.kv_heads = 3;  // 8 query heads do not share 3
  CHECK_FALSE(CudnnAttention::graph_error(call(odd), false, 90).empty());
}
