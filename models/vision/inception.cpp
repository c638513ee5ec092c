#include "models/vision/inception.h"

#include <utility>

#include "ops/activation/relu.h"
#include "ops/linalg/linear.h"
#include "ops/op.h"
#include "ops/pool/adaptive_avg_pool.h"
#include "ops/shape/reshape.h"
#include "ops/shape/split.h"

namespace moh {

namespace {

/// Runs convolutions in the order in which they are described.
class Run {
 public:
  explicit Run(const std::vector<Inception::Convolution>& all) : next_(all.begin()) {}

  Variable block(const InceptionBlock& block, const Variable& x) {
    std::vector<Variable> outputs;
    for (const InceptionBranch& branch : block.branches) outputs.push_back(of(branch, x));
    return join(outputs);
  }

 private:
  Variable of(const InceptionBranch& branch, Variable x) {
    if (branch.pool) x = window_pool(x, *branch.pool);
    for (std::size_t i = 0; i < branch.chain.size(); ++i) x = convolved(x);
    if (branch.fork.empty()) return x;
    std::vector<Variable> sides;
    for (std::size_t i = 0; i < branch.fork.size(); ++i) sides.push_back(convolved(x));
    return join(sides);
  }

  Variable convolved(const Variable& x) {
    const Inception::Convolution& c = *next_++;
    return relu(conv2d(x, c.weight, c.bias, {.stride = c.conv.stride, .padding = c.conv.padding}));
  }

  std::vector<Inception::Convolution>::const_iterator next_;
};

Variable as_rows(const Variable& x) {
  return reshape(x, {x.dim(0), x.dim(1) * x.dim(2) * x.dim(3)});
}

}  // namespace

Inception::Inception(Placement placement) : blocks_(inception_blocks()) {
  const auto add = [&](const InceptionConv& conv) {
    Convolution made{
        conv,
        add_parameter(conv.name + ".weight", {conv.out, conv.in, conv.kernel.y, conv.kernel.x}, placement),
        add_parameter(conv.name + ".bias", {conv.out}, placement)};
    convolutions_.push_back(std::move(made));
  };
  for (const InceptionBlock& block : blocks_) {
    for (const InceptionBranch& branch : block.branches) {
      for (const InceptionConv& conv : branch.chain) add(conv);
      for (const InceptionConv& conv : branch.fork) add(conv);
    }
  }
  classes_ = add_parameter("fc.weight", {kClasses, kFeatures}, placement);
}

InceptionOutput Inception::forward(const Variable& pictures,
                                   FunctionRef<void(std::string_view, const Variable&)> visit) const {
  Check("inception")
      .rank("pictures", pictures, 4)
      .shape("pictures", pictures, {pictures.dim(0), kSide, kSide, 3})
      .like("pictures", pictures, "the parameters", classes_);
  InceptionOutput output;
  Run run(convolutions_);
  Variable x = pictures;
  for (const InceptionBlock& block : blocks_) {
    x = run.block(block, x);
    visit(block.name, x);
    // The graph's mixed_6/conv is the first branch of this block.
    if (block.name == "Mixed_6d")
      output.spatial = as_rows(split(x, {kSpatialChannels, x.dim(3) - kSpatialChannels})[0]);
  }
  output.features = as_rows(adaptive_avg_pool(x, 1, 1));
  output.logits = linear(output.features, classes_);
  return output;
}

InceptionOutput Inception::forward(const Variable& pictures) const {
  return forward(pictures, [](std::string_view, const Variable&) {});
}

}  // namespace moh
