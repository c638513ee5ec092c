// transnext_attention, transnext_model, transnext_relpos and transnext_weight_decay: the released MoH-ViT.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/vision/transnext.h"
#include "ops/attention/aggregated_attention_kernels.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/op.h"
#include "ops/shape/reshape.h"
#include "tests/golden/golden_folders.h"
#include "tests/golden/golden_kinds.h"
#include "tests/golden/reference_choice.h"
#include "tests/support/skip.h"
#include "train/base/formats/torch/torch_weights.h"
#include "train/weights/load_weights.h"

using namespace moh;
using namespace moh::test;

namespace {

GridSize grid_from(const nlohmann::json& sides) {
  return {sides[0], sides[1]};
}

void check_positions(const GoldenCase& golden, const RelativePositions& positions, const std::string& table,
                     const std::string& index) {
  golden.check(table, positions.coordinates);
  golden.check(index, positions.index.reshape({positions.index.numel()}));
}

/// The window at each token as the kernels see it: which neighbours are outside of the image, and the
/// logarithm of the number of keys, this one with `keys` pooled ones.
struct WindowTables {
  Tensor outside, log_keys;

  WindowTables(const GridSize& grid, std::int64_t window, std::int64_t keys) {
    AggregatedShape shape{{1, grid.tokens(), keys, 1, 1, 1}, grid.height, grid.width, window};
    const std::int64_t columns = shape.padded_neighbours(), tokens = grid.tokens();
    const Tensor of_token = empty({tokens}, DType::kInt32);
    const Tensor offsets = empty({shape.places(), shape.neighbours()}, DType::kInt32);
    const Tensor mask = empty({shape.places(), columns}, DType::kFloat32),
                 logs = empty({shape.places()}, DType::kFloat32);
    run_cpu_kernel("places", mask, [&]<class Backend, class T>() {
      AggregatedKernels<Backend, float>::find_places(
          shape, {of_token.data<std::int32_t>(), offsets.data<std::int32_t>(), mask.data<float>(),
                  logs.data<float>()});
    });
    outside = empty({tokens, shape.neighbours()}, DType::kUInt8);
    log_keys = empty({tokens, 1}, DType::kFloat32);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t place = of_token.data<std::int32_t>()[t];
      log_keys.data<float>()[t] = logs.data<float>()[place];
      for (std::int64_t j = 0; j < shape.neighbours(); ++j)
        outside.data<std::uint8_t>()[t * shape.neighbours() + j] =
            mask.data<float>()[place * columns + j] != 0;
    }
  }
};

// transnext_attention

struct AttentionCase {
  TransNextAttentionOptions options;
  StageGrid grid;

  explicit AttentionCase(const GoldenCase& golden) {
    const nlohmann::json& c = golden.config();
    const HeadCounts counts = head_counts(golden, "inter.attn0", "inter.router0");
    options = {.width = c.at("dim"),
               .heads = counts.heads,
               .head_dim = c.at("dim").get<std::int64_t>() / counts.heads,
               .window = c.value("window_size", std::int64_t{0}),
               .routing = {routers::kLearned, {counts.heads, counts.shared, counts.top_k}}};
    const GridSize tokens = grid_from(c.at("res"));
    GridSize pooled = tokens;
    if (c.at("aggregated")) {
      const std::int64_t ratio = c.at("sr_ratio");
      pooled = {tokens.height / ratio, tokens.width / ratio};
      if (!c.at("fixed_pool_size").is_null()) pooled = {c.at("fixed_pool_size"), c.at("fixed_pool_size")};
    }
    const GridSize trained = c.contains("pretrain_res") ? grid_from(c.at("pretrain_res")) : tokens;
    grid = {tokens, pooled, relative_positions(tokens, pooled, trained)};
  }
};

/// The tables are inputs of the case.
void check_tables(const GoldenCase& golden, const AttentionCase& c) {
  const auto same = [&](const std::string& name, const Tensor& mine) {
    const Tensor reference = golden.tensor(name).to(DType::kFloat64), own = mine.to(DType::kFloat64);
    REQUIRE(reference.numel() == own.numel());
    for (std::int64_t i = 0; i < own.numel(); ++i)
      CHECK(own.data<double>()[i] == Approx(reference.data<double>()[i]).margin(1e-6));
  };
  same("in.relative_coords_table", c.grid.positions.coordinates);
  same("in.relative_pos_index", c.grid.positions.index);
  if (c.options.window == 0) {
    golden.check("const.seq_length_scale", std::log(static_cast<double>(c.grid.tokens.tokens())));
    return;
  }
  const WindowTables window(c.grid.tokens, c.options.window, c.grid.pooled.tokens());
  golden.check("const.padding_mask", window.outside);
  golden.check("const.seq_length_scale", window.log_keys);
}

void check_inside(const GoldenCase& golden, const AttentionCase& c, const TransNextAttention& layer) {
  const Variable x(golden.tensor("in.x"));
  LayerTraces own, all, weighted;
  layer.forward(x, c.grid, {.observer = &own});
  if (golden.has("inter.router0.gates")) check_router(golden, "inter.router0", own[0].choice.value().routing);
  layer.forward(x, c.grid, {.observer = &all, .all_heads = true});
  golden.check("inter.attn0.head_out", all[0].heads);
  const Tensor forced = imposed_choice(golden, "inter.router0");
  layer.forward(x, c.grid, {.observer = &weighted, .forced_top = {&forced, 1}});
  golden.check("inter.attn0.head_weights", weighted[0].choice.value().gates.value());
}

/// The gradients of the test loss, and of the balance loss alone where there is one. `run` makes the outputs.
template <class Run>
void check_losses(const GoldenCase& golden, const Module& module, const std::string& output, Variable& x,
                  const std::string& weights, const Run& run) {
  const auto [y, balance] = run();
  const double balance_value = balance.defined() ? balance.value().item() : 0;
  const Tensor w = golden.tensor(weights);
  golden.check(output, y.value());
  golden.check("out.lb_loss", balance_value);
  golden.check("out.loss", weighted_sum(y.value(), w) + kBalanceWeight * balance_value);
  std::vector<Variable> outputs = {y};
  std::vector<Tensor> seeds = {w};
  if (balance.defined()) {
    outputs.push_back(balance);
    seeds.push_back(full({}, kBalanceWeight, DType::kFloat32));
  }
  zero_gradients(module);
  x.zero_grad();
  backward(outputs, seeds);
  golden.check_gradients(module, "grad.param.");
  if (golden.has("grad.in.x")) golden.check("grad.in.x", x.grad());
  if (!balance.defined()) return;
  zero_gradients(module);
  x.zero_grad();
  run().second.backward();
  // The reference has gradients of a whole model's routers alone.
  for (const NamedParameter& p : module.parameters()) {
    const std::string name = "grad_lb.param." + p.name;
    if (golden.has(name)) golden.check(name, p.variable.grad());
  }
  if (golden.has("grad_lb.in.x")) golden.check("grad_lb.in.x", x.grad());
}

// transnext_model

/// A side that is null, or not named, where the reference computes it: 0 here.
std::int64_t side_or_zero(const nlohmann::json& config, const char* key) {
  return config.contains(key) && !config.at(key).is_null() ? config.at(key).get<std::int64_t>() : 0;
}

TransNextConfig config_of(const GoldenCase& golden) {
  const nlohmann::json& c = golden.config();
  TransNextConfig config{.channels = golden.tensor("in.x").dim(1),
                         .classes = c.at("num_classes"),
                         .dims = c.at("embed_dims"),
                         .heads = c.at("num_heads"),
                         .depths = c.at("depths"),
                         .mlp_ratios = c.at("mlp_ratios"),
                         .pool_ratios = c.at("sr_ratios"),
                         .window = c.value("window_size", std::int64_t{3}),
                         .fixed_pool_size = side_or_zero(c, "fixed_pool_size"),
                         .pretrain_size = c.value("pretrain_size", c.at("img_size").get<std::int64_t>())};
  config.moh.router = routers::kLearned;
  config.moh.num_shared = c.at("shared_head").get<std::vector<std::int64_t>>();
  config.moh.top_k = c.at("routed_head").get<std::vector<std::int64_t>>();
  return config;
}

/// Images [B, C, H, W] with their channels last, and back.
Variable channels_last(const Variable& images) {
  const std::int64_t channels = images.dim(1), pixels = images.dim(2) * images.dim(3);
  const auto moved = [](const Tensor& from, std::int64_t rows, std::int64_t columns) {
    Tensor to = empty({from.numel()}, DType::kFloat32);
    for (std::int64_t i = 0; i < from.numel(); ++i) {
      const std::int64_t block = i / (rows * columns), row = i / columns % rows, column = i % columns;
      to.data<float>()[(block * columns + column) * rows + row] = from.data<float>()[i];
    }
    return to;
  };
  return record("channels_last",
                moved(images.value(), channels, pixels)
                    .reshape({images.dim(0), images.dim(2), images.dim(3), channels}),
                {images}, [=, shape = images.shape()](const Tensor& dy) -> Grads {
                  return {moved(dy, pixels, channels).reshape(shape)};
                });
}

/// The number of each MoH layer with routed heads among all layers.
std::vector<std::size_t> routed_layers(const TransNext& model) {
  std::vector<std::size_t> layers;
  const std::vector<HeadRoutingOptions> routing = model.routing();
  for (std::size_t i = 0; i < routing.size(); ++i) {
    if (routing[i].router.top_k > 0) layers.push_back(i);
  }
  return layers;
}

/// The reference's selection, for ForwardContext::forced_top.
std::vector<Tensor> imposed_choices(const GoldenCase& golden, const TransNext& model) {
  std::vector<Tensor> choices(model.routing().size());
  const std::vector<std::size_t> routed = routed_layers(model);
  for (std::size_t i = 0; i < routed.size(); ++i)
    choices[routed[i]] = imposed_choice(golden, numbered("router", i));
  return choices;
}

void check_choices(const GoldenCase& golden, const TransNext& model, const Variable& images) {
  const std::vector<Tensor> imposed = imposed_choices(golden, model);
  LayerTraces own, weighted;
  model.forward(images, {.observer = &own});
  model.forward(images, {.observer = &weighted, .forced_top = imposed});
  const std::vector<std::size_t> routed = routed_layers(model);
  for (std::size_t i = 0; i < routed.size(); ++i)
    check_router(golden, numbered("router", i), own[routed[i]].choice.value().routing);
  for (std::size_t i = 0; i < weighted.size(); ++i)
    golden.check(numbered("attn", i) + ".head_weights", weighted[i].choice.value().gates.value());
}

Variable mean_balance(const ImageOutput& output) {
  Variable sum;
  double count = 0;
  for (const LayerRouting& layer : output.routing) {
    if (!layer.balance.defined()) continue;
    sum = sum.defined() ? add(sum, layer.balance) : layer.balance;
    ++count;
  }
  return count > 0 ? scale(sum, 1 / count) : Variable();
}

void check_balances(const GoldenCase& golden, const ImageOutput& output) {
  std::vector<float> balances;
  for (const LayerRouting& layer : output.routing) {
    if (layer.balance.defined()) balances.push_back(static_cast<float>(layer.balance.value().item()));
  }
  golden.check("out.lb_per_layer", tensor_of<float>({static_cast<std::int64_t>(balances.size())}, balances));
}

void check_stages(const GoldenCase& golden, const TransNext& model, const Variable& images,
                  const std::vector<Tensor>& imposed) {
  std::size_t block = 0, stage = 0;
  for (const TransNextStageOutput& output : model.stage_outputs(images, {.forced_top = imposed})) {
    const std::string number = std::to_string(++stage);
    check_positions(golden, output.grid->positions, "const.relative_coords_table" + number,
                    "const.relative_pos_index" + number);
    for (const Tensor& tokens : output.after_blocks) {
      const std::string name = numbered("block", block++) + ".out";
      if (golden.has(name)) golden.check(name, tokens);
    }
    golden.check(numbered("norm", stage) + ".out", output.after_norm);
  }
}

}  // namespace

GOLDEN_KIND(transnext_relpos) {
  for (const auto& [name, sizes] : golden.config().at("cases").items()) {
    const GridSize queries = grid_from(sizes[0]);
    const RelativePositions positions =
        relative_positions(queries, grid_from(sizes[1]), sizes[2].is_null() ? queries : grid_from(sizes[2]));
    check_positions(golden, positions, "out." + name + ".relative_coords_table",
                    "out." + name + ".relative_pos_index");
  }
  for (const auto& [name, sizes] : golden.config().at("windows").items()) {
    const GridSize grid = grid_from(sizes[0]);
    const WindowTables window(grid, sizes[1], sizes[2]);
    golden.check("out." + name + ".padding_mask", window.outside);
    golden.check("out." + name + ".seq_length_scale", window.log_keys);
    const Tensor inside = zeros({grid.tokens(), 1}, DType::kFloat32);
    for (std::int64_t i = 0; i < window.outside.numel(); ++i)
      inside.data<float>()[i / window.outside.dim(1)] +=
          window.outside.data<std::uint8_t>()[i] == 0 ? 1.0F : 0.0F;
    golden.check("out." + name + ".local_length", inside);
  }
}

GOLDEN_KIND(transnext_attention) {
  const AttentionCase c(golden);
  check_tables(golden, c);
  const TransNextAttention layer(c.options, DType::kFloat32);
  golden.load(layer, "param.");
  check_inside(golden, c, layer);
  const Tensor forced = imposed_choice(golden, "inter.router0");
  Variable x(golden.tensor("in.x"), true);
  check_losses(golden, layer, "out.y", x, "w.y", [&]() -> std::pair<Variable, Variable> {
    const LayerOutput out = layer.forward(x, c.grid, {.forced_top = {&forced, 1}});
    return {out.y, out.routing->balance};
  });
}

GOLDEN_KIND(transnext_model) {
  TransNextConfig config = config_of(golden);
  for (const RecomputeLevel level : kRecomputeLevels) {
    INFO("recompute " << static_cast<int>(level));
    config.recompute = level;
    const TransNext model(config, DType::kFloat32);
    golden.load(model, "param.");
    Variable x(golden.tensor("in.x"), true);
    check_choices(golden, model, channels_last(x));
    const std::vector<Tensor> imposed = imposed_choices(golden, model);
    check_losses(golden, model, "out.train", x, "w.out", [&]() -> std::pair<Variable, Variable> {
      const ImageOutput out = model.forward(channels_last(x), {.training = true, .forced_top = imposed});
      check_balances(golden, out);
      return {out.logits, mean_balance(out)};
    });
    const NoGrad no_grad;
    golden.check("out.eval", model.forward(channels_last(x), {.forced_top = imposed}).logits.value());
    check_stages(golden, model, channels_last(x), imposed);
  }
}

namespace {

/// The files of the case's torch_checkpoints that hold its weights under "model", by their manifest.
std::vector<std::filesystem::path> checkpoints_of(const GoldenCase& golden) {
  const std::filesystem::path folder = golden.path().parent_path() / "torch_checkpoints";
  if (!std::filesystem::exists(folder / "manifest.json")) return {};
  std::vector<std::filesystem::path> found;
  const auto manifest = nlohmann::json::parse(std::ifstream(folder / "manifest.json"));
  for (const auto& [file, contents] : manifest.items()) {
    const auto holds = [&, &tensors = contents](const std::string& name) {
      const auto listed = tensors.find("tensors");
      if (listed == tensors.end()) return false;
      const auto entry = listed->find("model/" + name.substr(std::string_view("param.").size()));
      return entry != listed->end() && entry->at("first") == golden.tensor(name).span<float>()[0];
    };
    if (std::ranges::all_of(golden.names("param."), holds)) found.push_back(folder / file);
  }
  return found;
}

}  // namespace

TEST_CASE("golden: a .pth file of a TransNeXt loads, and gives its logits", "[shared]") {
  int files = 0;
  for_each_golden("transnext_model", [&](const GoldenCase& golden) {
    for (const std::filesystem::path& path : checkpoints_of(golden)) {
      ++files;
      INFO(path);
      const TransNext model(config_of(golden), DType::kFloat32);
      load_weights(model.parameters(), *open_torch_weights(path, "model"));
      const NoGrad no_grad;
      golden.check("out.eval", model.forward(channels_last(Variable(golden.tensor("in.x")))).logits.value());
      std::cout << "golden: weights of " << golden.path().string() << ": " << path.string() << std::endl;
    }
  });
  if (files == 0) MOH_SKIP("no golden folder has a file of PyTorch with the weights of a transnext_model");
}

namespace {

[[maybe_unused]] const bool decay_registered = register_golden_kind("transnext_weight_decay");

}  // namespace

TEST_CASE("golden: transnext_weight_decay", "[shared]") {
  using Names = std::set<std::string>;
  for (const std::filesystem::path& folder : golden_folders()) {
    if (!std::filesystem::exists(folder / "transnext_weight_decay.json")) continue;
    const auto groups = nlohmann::json::parse(std::ifstream(folder / "transnext_weight_decay.json"));
    const Names decayed = groups.at("decay"), others = groups.at("no_decay");
    Names listed = decayed;
    listed.insert(others.begin(), others.end());
    int compared = 0;
    for_each_golden("transnext_model", [&](const GoldenCase& golden) {
      const TransNext model(config_of(golden), DType::kFloat32);
      Names mine, rest;
      for (const NamedParameter& p : model.parameters()) (model.decays(p) ? mine : rest).insert(p.name);
      Names all = mine;
      all.insert(rest.begin(), rest.end());
      if (all != listed) return;  // the lists are those of another model
      ++compared;
      CHECK(mine == decayed);
      CHECK(rest == others);
    });
    INFO(folder << ": transnext_weight_decay.json: the lists have the parameters of no transnext_model");
    CHECK(compared > 0);
  }
}
