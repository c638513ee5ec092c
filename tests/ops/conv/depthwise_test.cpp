#include "ops/conv/depthwise.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/ops/conv/reference.h"

using namespace moh;
using namespace moh::test;

// Channels end within a vector, within several, and at their ends; images are narrower than a strip of
// pixels, and wider.
OP_CASES(depthwise_conv2d) {
  OpCases cases;
  for (const ConvCase& conv : std::vector<ConvCase>{
           {{1, 1, 1, 1}, {1, 1, 1, 1}},
           {{2, 6, 9, 5}, {5, 1, 3, 3}, {.padding = 1, .groups = 5}},  // ConvGLU's
           {{1, 3, 12, 24}, {24, 1, 3, 3}, {.padding = 1, .groups = 24}, false},
           {{1, 2, 7, 72}, {72, 1, 3, 3}, {.padding = 1, .groups = 72}},
           {{1, 2, 3, 130}, {130, 1, 3, 3}, {.padding = 1, .groups = 130}},
           {{1, 9, 8, 3}, {3, 1, 4, 5}, {.stride = {2, 3}, .padding = {1, 2}, .groups = 3}},
           {{1, 3, 2, 8}, {8, 1, 5, 5}, {.padding = 2, .groups = 8}},
           {{1, 2, 3, 4},
            {4, 1, 2, 2},
            {.stride = 2, .padding = 3, .groups = 4}},  // padding beyond the kernel
           {{1, 4, 30, 4}, {4, 1, 1, 9}, {.groups = 4}},
           // rows of three taps: other paddings, fewer pixels than a strip, several segments
           {{2, 4, 9, 6}, {6, 1, 3, 3}, {.groups = 6}, false},
           {{1, 3, 4, 17}, {17, 1, 2, 3}, {.padding = {0, 2}, .groups = 17}},
           {{1, 2, 5, 9}, {9, 1, 3, 3}, {.padding = 4, .groups = 9}},
           {{1, 2, 37, 3}, {3, 1, 3, 3}, {.stride = {2, 1}, .padding = 1, .groups = 3}},
           {{0, 5, 5, 4}, {4, 1, 3, 3}, {.padding = 1, .groups = 4}}})
    cases.push_back(conv_case(conv));
  return cases;
}
