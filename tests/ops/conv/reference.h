#pragma once

#include <string>

#include "ops/conv/conv2d.h"
#include "tests/ops/op_cases.h"

namespace moh::test {

/// A case of conv2d, of images [B, H, W, C].
struct ConvCase {
  Shape x, w;
  Conv2dOptions options = {};
  bool bias = true;
};

/// With the formula in plain loops as its reference.
OpCase conv_case(const ConvCase& conv);

}  // namespace moh::test
