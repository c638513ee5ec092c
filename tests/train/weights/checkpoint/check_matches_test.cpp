#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "train/weights/compare_weights.h"

namespace moh {

namespace {

const std::vector<WeightInfo> kModel = {
    {"embed", "F32", {7, 4}}, {"layers.3.attention.wq", "F32", {4, 4}}, {"norm", "BF16", {4}}};

WeightInfo tensor(const std::string& name, const Shape& shape, std::string_view stored_dtype = "F32") {
  return {name, stored_dtype, shape};
}

std::string mismatch(const std::vector<WeightInfo>& found) {
  return message_of<CheckpointError>([&] { check_matches("checkpoint step_1200", kModel, found); });
}

}  // namespace

TEST_CASE("checkpoint: match: the same tensors in any order match") {
  CHECK_NOTHROW(check_matches("checkpoint step_1200", kModel,
                              std::vector{tensor("norm", {4}, "BF16"), tensor("embed", {7, 4}),
                                          tensor("layers.3.attention.wq", {4, 4})}));
  CHECK_NOTHROW(check_matches("x", {}, {}));
}

TEST_CASE("checkpoint: match: one difference is one line") {
  CHECK(mismatch({tensor("norm", {4}, "BF16"), tensor("embed", {7, 4}),
                  tensor("layers.3.attention.wq", {4, 2})}) ==
        "checkpoint step_1200: layers.3.attention.wq: expected [4, 4] float32, found [4, 2] float32");
  CHECK(mismatch({tensor("norm", {4}), tensor("embed", {7, 4}), tensor("layers.3.attention.wq", {4, 4})}) ==
        "checkpoint step_1200: norm: expected [4] bfloat16, found [4] float32");
}

TEST_CASE("checkpoint: match: everything missing, unexpected and different is listed at once") {
  CHECK(mismatch({tensor("embed", {4, 7}), tensor("lm_head", {7, 4}), tensor("norm", {4}, "BF16")}) ==
        "checkpoint step_1200: 3 tensors differ from the model's:\n"
        "  embed: expected [7, 4] float32, found [4, 7] float32\n"
        "  layers.3.attention.wq: expected [4, 4] float32, found no tensor of this name\n"
        "  lm_head: expected no tensor of this name, found [7, 4] float32");
}

}  // namespace moh
