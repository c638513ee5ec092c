#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/conv/conv2d.h"
#include "ops/pool/window_pool.h"

namespace moh {

/// A convolution of Inception v3 with its batch normalisation and ReLU.
struct InceptionConv {
  std::string name;        ///< in PyTorch's files: "Mixed_5b.branch5x5_1"
  std::string graph_name;  ///< in TensorFlow's graph of 2015: "mixed/tower/conv"
  std::int64_t in = 0, out = 0;
  PerAxis kernel = 1, stride = 1, padding = 0;
};

/// Layers of a block between its input and its output.
struct InceptionBranch {
  std::optional<WindowPoolOptions> pool;  ///< before the convolutions
  std::vector<InceptionConv> chain;       ///< one after the other
  std::vector<InceptionConv> fork;        ///< each of the chain's output, side by side; may be empty
};

/// Branches of one input whose outputs lie side by side.
struct InceptionBlock {
  std::string name;  ///< "Mixed_5b"
  std::vector<InceptionBranch> branches;
};

/// Inception v3 (Szegedy et al. 2015, arXiv 1512.00567) in the form of TensorFlow's graph of December 2015,
/// by which FID is defined (Heusel et al. 2017, arXiv 1706.08500): 1008 classes, pooling without the padding,
/// and in the last block a maximum in place of a mean. The first five blocks have one branch each.
std::vector<InceptionBlock> inception_blocks();

}  // namespace moh
