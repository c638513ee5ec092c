#include "models/vision/inception_blocks.h"

#include <utility>

namespace moh {

namespace {

/// A convolution as the tables below have it.
struct Part {
  const char* name;
  std::int64_t out;
  PerAxis kernel = 1;
  std::int64_t stride = 1;
  bool padded = true;  ///< by half of the kernel, so that a stride of 1 keeps the size
};

struct Branch {
  std::optional<WindowPoolOptions> pool = {};
  std::vector<Part> chain = {};
  std::vector<Part> fork = {};
};

constexpr WindowPoolOptions kHalve = {PoolKind::kMax, 3, 2, 0}, kMean = {PoolKind::kMean, 3, 1, 1},
                            kMax = {PoolKind::kMax, 3, 1, 1};

/// "tower" for number 0, "tower_2" for 2.
std::string numbered(const std::string& name, std::size_t number) {
  return number == 0 ? name : name + "_" + std::to_string(number);
}

InceptionConv conv_of(const Part& part, const std::string& block, std::string graph_name, std::int64_t in) {
  InceptionConv conv{block.empty() ? part.name : block + "." + part.name,
                     std::move(graph_name),
                     in,
                     part.out,
                     part.kernel,
                     part.stride};
  if (part.padded) conv.padding = {part.kernel.y / 2, part.kernel.x / 2};
  return conv;
}

/// Adds blocks and follows how many channels they have.
class Builder {
 public:
  /// A block before the mixed ones: a pooling, or the next of the graph's convolutions.
  void stem(const char* name, const Branch& branch) {
    InceptionBlock block{name, {{branch.pool, {}, {}}}};
    for (const Part& part : branch.chain) {
      block.branches[0].chain.push_back(conv_of(part, "", numbered("conv", stem_++), channels_));
      channels_ = part.out;
    }
    blocks_.push_back(std::move(block));
  }

  void mixed(const char* name, const std::vector<Branch>& branches) {
    const std::string scope = numbered("mixed", mixed_++);
    InceptionBlock block{name, {}};
    std::int64_t outputs = 0;
    std::size_t towers = 0;
    for (const Branch& branch : branches) {
      // A convolution alone, as the first branch of a block, has no scope of its own in the graph.
      const bool alone = branch.chain.size() == 1 && branch.fork.empty() && !branch.pool;
      const bool pools = branch.chain.empty();
      const std::string tower = alone || pools ? scope : scope + "/" + numbered("tower", towers++);
      InceptionBranch made{branch.pool, {}, {}};
      std::int64_t in = channels_;
      for (const Part& part : branch.chain) {
        made.chain.push_back(conv_of(part, name, tower + "/" + numbered("conv", made.chain.size()), in));
        in = part.out;
      }
      for (const Part& part : branch.fork) {
        made.fork.push_back(conv_of(part, name, tower + "/mixed/" + numbered("conv", made.fork.size()), in));
        outputs += part.out;
      }
      if (branch.fork.empty()) outputs += in;
      block.branches.push_back(std::move(made));
    }
    channels_ = outputs;
    blocks_.push_back(std::move(block));
  }

  std::vector<InceptionBlock> take() && { return std::move(blocks_); }

 private:
  std::vector<InceptionBlock> blocks_;
  std::int64_t channels_ = 3;
  std::size_t stem_ = 0, mixed_ = 0;
};

/// 35 x 35 pixels.
std::vector<Branch> wide_block(std::int64_t pooled) {
  return {{.chain = {{"branch1x1", 64}}},
          {.chain = {{"branch5x5_1", 48}, {"branch5x5_2", 64, 5}}},
          {.chain = {{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, 3}, {"branch3x3dbl_3", 96, 3}}},
          {.pool = kMean, .chain = {{"branch_pool", pooled}}}};
}

/// 17 x 17 pixels, by rows and columns of 7.
std::vector<Branch> middle_block(std::int64_t width) {
  const PerAxis row(1, 7), column(7, 1);
  return {{.chain = {{"branch1x1", 192}}},
          {.chain = {{"branch7x7_1", width}, {"branch7x7_2", width, row}, {"branch7x7_3", 192, column}}},
          {.chain = {{"branch7x7dbl_1", width},
                     {"branch7x7dbl_2", width, column},
                     {"branch7x7dbl_3", width, row},
                     {"branch7x7dbl_4", width, column},
                     {"branch7x7dbl_5", 192, row}}},
          {.pool = kMean, .chain = {{"branch_pool", 192}}}};
}

/// 8 x 8 pixels, with forks.
std::vector<Branch> narrow_block(const WindowPoolOptions& pool) {
  const PerAxis row(1, 3), column(3, 1);
  return {
      {.chain = {{"branch1x1", 320}}},
      {.chain = {{"branch3x3_1", 384}}, .fork = {{"branch3x3_2a", 384, row}, {"branch3x3_2b", 384, column}}},
      {.chain = {{"branch3x3dbl_1", 448}, {"branch3x3dbl_2", 384, 3}},
       .fork = {{"branch3x3dbl_3a", 384, row}, {"branch3x3dbl_3b", 384, column}}},
      {.pool = pool, .chain = {{"branch_pool", 192}}}};
}

}  // namespace

std::vector<InceptionBlock> inception_blocks() {
  Builder add;
  add.stem("Conv2d_1a_3x3", {.chain = {{"Conv2d_1a_3x3", 32, 3, 2, false}}});
  add.stem("Conv2d_2a_3x3", {.chain = {{"Conv2d_2a_3x3", 32, 3, 1, false}}});
  add.stem("Conv2d_2b_3x3", {.chain = {{"Conv2d_2b_3x3", 64, 3}}});
  add.stem("MaxPool_1", {.pool = kHalve});
  add.stem("Conv2d_3b_1x1", {.chain = {{"Conv2d_3b_1x1", 80}}});
  add.stem("Conv2d_4a_3x3", {.chain = {{"Conv2d_4a_3x3", 192, 3, 1, false}}});
  add.stem("MaxPool_2", {.pool = kHalve});
  add.mixed("Mixed_5b", wide_block(32));
  add.mixed("Mixed_5c", wide_block(64));
  add.mixed("Mixed_5d", wide_block(64));
  add.mixed(
      "Mixed_6a",
      {{.chain = {{"branch3x3", 384, 3, 2, false}}},
       {.chain = {{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, 3}, {"branch3x3dbl_3", 96, 3, 2, false}}},
       {.pool = kHalve}});
  add.mixed("Mixed_6b", middle_block(128));
  add.mixed("Mixed_6c", middle_block(160));
  add.mixed("Mixed_6d", middle_block(160));
  add.mixed("Mixed_6e", middle_block(192));
  add.mixed("Mixed_7a", {{.chain = {{"branch3x3_1", 192}, {"branch3x3_2", 320, 3, 2, false}}},
                         {.chain = {{"branch7x7x3_1", 192},
                                    {"branch7x7x3_2", 192, {1, 7}},
                                    {"branch7x7x3_3", 192, {7, 1}},
                                    {"branch7x7x3_4", 192, 3, 2, false}}},
                         {.pool = kHalve}});
  add.mixed("Mixed_7b", narrow_block(kMean));
  add.mixed("Mixed_7c", narrow_block(kMax));
  return std::move(add).take();
}

}  // namespace moh
