// A router that only this file knows (CONTRIBUTING.md, "How a router is added"), in the ordinary commands.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/llm/llama.h"
#include "ops/elementwise/add.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/parameter_gradients.h"
#include "tests/support/temporary_folder.h"
#include "train/apps/cli/cli.h"
#include "train/base/io/file_ops.h"
#include "train/families/families.h"
#include "train/weights/checkpoint/manifest.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Logits that are numbers of their own for each head, whatever the token is.
class OwnRouter : public Router {
 public:
  OwnRouter(const RouterSizes& sizes, Placement placement) {
    placement.dtype = accumulate_dtype(placement.dtype);  // logits are float32 in a bfloat16 model, too
    const auto numbers = [&](const char* name, std::int64_t width) {
      return width > 0 ? add_parameter(name, {1, width}, placement) : Variable();
    };
    routed_ = numbers("own_routed", sizes.widths.routed);
    type_ = numbers("own_type", sizes.widths.type);
    shared_ = numbers("own_shared", sizes.widths.shared);
  }

  RouterLogits logits(const LayerInput& in, const RouterHeads& /*heads*/) const override {
    const Tensor rows = zeros({in.x.dim(0) * in.x.dim(1)}, DType::kInt64, in.x.device());
    const auto of_tokens = [&](const Variable& numbers) {
      return numbers.defined() ? embedding(numbers, rows) : Variable();
    };
    return {.routed = of_tokens(routed_), .type = of_tokens(type_), .shared = of_tokens(shared_)};
  }

 private:
  Variable routed_, type_, shared_;
};

constexpr RouterType kOwnRouter{
    .name = "own", .doc = "numbers of their own for each head.", .make = &make_router<OwnRouter>};

/// Adds the router to those of this program, once.
RouterKey own_router() {
  static const bool added = (RouterType::registry().add(kOwnRouter), true);
  CHECK(added);
  return kOwnRouter;
}

constexpr const char* kRun = R"(
seed: 3
model:
  layers: 2
  hidden: 32
  intermediate: 48
  heads: 6
  head_dim: 8
  max_positions: 32
  moh: {router: own, num_shared: 2, top_k: 2}
data: {train: text.txt, sequence_length: 32}
train: {steps: 6, batch_size: 4}
optim: {learning_rate: 0.01}
checkpoint: {every: 3, keep_last: 2, keep_best: false}
sample: {tokens: 0}
)";

/// The exit code of `moh` with these arguments.
int moh_program(std::vector<std::string> args) {
  args.insert(args.begin(), "moh");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  return cli::run(static_cast<int>(argv.size()), argv.data(), families());
}

/// The tensors of a checkpoint, the weights and the optimiser's state, by file.
std::map<std::string, std::string> tensors_of(const std::filesystem::path& run, const char* step) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints" / step)) {
    if (entry.path().extension() == ".safetensors")
      files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

}  // namespace

TEST_CASE("own router: the commands train it, resume it to the bit and plan it") {
  own_router();
  const TemporaryFolder folder;
  std::ofstream text(folder.path() / "text.txt");
  for (int i = 0; i < 400; ++i) text << "line " << i * i % 97 << " of a text\n";
  text.close();
  const std::string file = (folder.path() / "run.yaml").string();
  std::ofstream(file) << kRun;
  const std::filesystem::path whole = folder.path() / "whole", cut = folder.path() / "cut";
  const std::string data = "data.train=" + (folder.path() / "text.txt").string();
  const auto train = [&](const std::filesystem::path& run, std::vector<std::string> more = {}) {
    std::vector<std::string> args{"train", file, data, "output.dir=" + run.string()};
    args.insert(args.end(), more.begin(), more.end());
    return moh_program(args);
  };
  REQUIRE(train(whole) == 0);
  REQUIRE(train(cut) == 0);
  std::filesystem::remove_all(cut / "checkpoints/step_00000006");
  REQUIRE(train(cut, {"--resume"}) == 0);
  const auto at_end = tensors_of(whole, "step_00000006"), halfway = tensors_of(whole, "step_00000003");
  REQUIRE(at_end.size() >= 2);
  CHECK(tensors_of(cut, "step_00000006") == at_end);
  CHECK(halfway != at_end);
  CHECK(at_end.at(kModelFile).find("self_attn.own_routed") != std::string::npos);

  CHECK(moh_program({"plan", file, data}) == 0);
  CHECK(moh_program({"eval", "--checkpoint", whole.string()}) == 0);
  // Dense weights in place of its own: its numbers have no input to be fitted to.
  const std::string dense = (folder.path() / "dense").string(), next = "init.from=" + dense;
  REQUIRE(train(dense, {"model.moh.router=none", "model.moh.num_shared=0", "model.moh.top_k=0"}) == 0);
  CHECK(train(folder.path() / "next", {next}) == 2);
  CHECK(train(folder.path() / "next", {next, "init.moh.router_start=random"}) == 0);

  const std::string hf = (folder.path() / "hf").string();
  CHECK(moh_program({"convert", "--from", whole.string(), "--to", hf, "--format", "hf"}) == 2);
}

TEST_CASE("own router: its numbers get the gradient of the loss") {
  LlamaConfig config{.vocab_size = 11,
                     .layers = 1,
                     .hidden = 12,
                     .intermediate = 16,
                     .heads = 6,
                     .kv_heads = 6,
                     .head_dim = 2,
                     .max_positions = 8};
  config.moh = {.router = own_router(), .num_shared = 2, .top_k = 2};
  Llama model(config, Placement(DType::kFloat64));
  model.initialise(5);
  for (const NamedParameter& p : model.parameters()) {
    if (is_matrix(p)) p.variable.value().scale(20);
  }
  const Tensor tokens = tensor_of<std::int64_t>({1, 6}, {1, 5, 2, 8, 3, 10});
  const std::vector<NamedParameter> numbers = router_parameters(model);
  REQUIRE(numbers.size() == 3);
  check_parameter_gradients(numbers, [&] {
    const LlamaOutput output = model.forward(tokens);
    return add(cross_entropy(output.logits, tokens, {.normalizer = 6}), output.routing[0].balance);
  });
  for (const NamedParameter& p : numbers) {
    double most = 0;
    for (const double d : p.variable.grad().span<double>()) most = std::max(most, std::abs(d));
    INFO(p.name);
    CHECK(most > 1e-6);
  }
}

TEST_CASE("own router: a name is taken once") {
  own_router();
  CHECK_THROWS_WITH(RouterType::registry().add(kOwnRouter),
                    "routers: name: expected one that no other type has, found own");
}
