// dit_model, dit_model_dense, dit_schedule and torch_expected: the released MoH-DiT and DiT, with their
// diffusion process, and a checkpoint of their training.

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/node.h"
#include "models/diffusion/dit.h"
#include "models/diffusion/reverse_step.h"
#include "models/diffusion/sinusoids.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "tests/golden/golden_kinds.h"
#include "tests/golden/reference_choice.h"
#include "train/base/formats/torch/torch_weights.h"
#include "train/weights/load_weights.h"

using namespace moh;
using namespace moh::test;

namespace {

PerLayer per_layer(const nlohmann::json& value) {
  if (value.is_number()) return value.get<std::int64_t>();
  return value.get<std::vector<std::int64_t>>();
}

DitConfig config_of(const GoldenCase& golden) {
  const nlohmann::json& c = golden.config();
  DitConfig config{.image_size = c.at("input_size"),
                   .patch_size = c.at("patch_size"),
                   .channels = golden.tensor("in.x").dim(1),
                   .classes = c.at("num_classes"),
                   .layers = c.at("depth"),
                   .hidden = c.at("hidden_size"),
                   .heads = per_layer(c.at("num_heads")),
                   // The released code reads head_dim only if the heads are a list.
                   .head_dim = c.at("num_heads").is_number() ? 0 : c.value("head_dim", std::int64_t{0}),
                   .mlp_ratio = c.at("mlp_ratio").get<std::int64_t>()};
  if (!c.contains("shared_head")) return config;
  config.moh.router = routers::kLearned;
  config.moh.num_shared = per_layer(c.at("shared_head"));
  config.moh.top_k = per_layer(c.at("routed_head"));
  return config;
}

DitInput input_of(const GoldenCase& golden, const std::string& x, const std::string& t,
                  const std::string& y) {
  return {Variable(golden.tensor(x)), golden.tensor(t), golden.tensor(y)};
}

std::vector<std::size_t> routed_layers(const Dit& model) {
  std::vector<std::size_t> layers;
  const std::vector<HeadRoutingOptions> routing = model.routing();
  for (std::size_t i = 0; i < routing.size(); ++i) {
    if (routing[i].router.top_k > 0 && routing[i].kind != routers::kNone) layers.push_back(i);
  }
  return layers;
}

Variable mean_balance(const DitOutput& output) {
  Variable sum;
  double count = 0;
  for (const LayerRouting& layer : output.routing) {
    if (!layer.balance.defined()) continue;
    sum = sum.defined() ? add(sum, layer.balance) : layer.balance;
    ++count;
  }
  return count > 0 ? scale(sum, 1 / count) : Variable();
}

void check_balances(const GoldenCase& golden, const DitOutput& output) {
  std::vector<float> balances;
  for (const LayerRouting& layer : output.routing) {
    if (layer.balance.defined()) balances.push_back(static_cast<float>(layer.balance.value().item()));
  }
  golden.check("out.lb_per_layer", tensor_of<float>({static_cast<std::int64_t>(balances.size())}, balances));
}

/// The gradients of the test loss, of the inputs too, and of the balance loss alone. The reference has no
/// gradient of the fixed positions, nor of the input of the dense model.
void check_gradients(const GoldenCase& golden, const Dit& model, DitInput input) {
  input.images = Variable(golden.tensor("in.x"), true);
  const Tensor w = golden.tensor("w.out");
  const DitOutput out = model.forward(input, {.training = true});
  const Variable balance = mean_balance(out);
  const double balance_value = balance.defined() ? balance.value().item() : 0;
  golden.check("out.loss", weighted_sum(out.prediction.value(), w) + kBalanceWeight * balance_value);
  if (model.config().moh.router != routers::kNone) {
    check_balances(golden, out);
    golden.check("out.train", out.prediction.value());
    golden.check("out.lb_loss", balance_value);
  }
  std::vector<Variable> outputs = {out.prediction};
  std::vector<Tensor> seeds = {w};
  if (balance.defined()) {
    outputs.push_back(balance);
    seeds.push_back(full({}, kBalanceWeight, DType::kFloat32));
  }
  backward(outputs, seeds);
  golden.check_gradients(model, "grad.param.");
  golden.check("grad.in.x", input.images.grad());
  if (!balance.defined()) return;
  zero_gradients(model);
  input.images.zero_grad();
  mean_balance(model.forward(input, {.training = true})).backward();
  for (const NamedParameter& p : model.parameters()) {
    const std::string name = "grad_lb.param." + p.name;
    if (golden.has(name)) golden.check(name, p.variable.grad());
  }
  golden.check("grad_lb.in.x", input.images.grad());
  zero_gradients(model);
}

/// Intermediate values: routers and gates of each layer. The outputs of the blocks, which a model shows
/// nobody, are computed again from the parameters.
void check_inside(const GoldenCase& golden, const Dit& model, const DitInput& input) {
  LayerTraces own;
  model.forward(input, {.observer = &own});
  const std::vector<std::size_t> routed = routed_layers(model);
  for (std::size_t i = 0; i < routed.size(); ++i)
    check_router(golden, numbered("router", i), own[routed[i]].choice.value().routing);
  for (std::size_t i = 0; i < own.size(); ++i)
    golden.check(numbered("attn", i) + ".head_weights", own[i].choice.value().gates.value());
}

/// Models of the first blocks alone, whose last layer passes tokens on, would be others: the outputs of the
/// blocks are those of the blocks themselves, on the tokens and the condition of the whole.
void check_blocks(const GoldenCase& golden, const Dit& model, const DitInput& input) {
  const auto tokens = model.tokens_after_blocks(input);
  for (std::size_t i = 0; i < tokens.size(); ++i) golden.check(numbered("block", i) + ".out", tokens[i]);
}

struct TrainTerms {
  Variable total;
  DiffusionLoss loss;
  DitOutput output;
  Tensor noisy;
};

TrainTerms train_terms(const GoldenCase& golden, const Dit& model, const NoiseSchedule& schedule) {
  const Tensor start = golden.tensor("in.train.x_start"), noise = golden.tensor("in.train.noise"),
               t = golden.tensor("in.train.t");
  const std::int64_t samples = start.dim(0);
  TrainTerms terms;
  terms.noisy = empty_like(start);
  const Tensor factors = empty({samples, kDiffusionFactors}, DType::kFloat32);
  for (std::int64_t b = 0; b < samples; ++b) {
    const std::int64_t step = t.data<std::int64_t>()[b];
    add_noise(schedule[step], start.select(b).span<float>(), noise.select(b).span<float>(),
              terms.noisy.select(b).span<float>());
    diffusion_factors(schedule[step], step == 0, factors.select(b).span<float>());
  }
  terms.output = model.forward({Variable(terms.noisy), t, golden.tensor("in.y")}, {.training = true});
  terms.loss = diffusion_loss(terms.output.prediction, {start, terms.noisy, noise, factors},
                              static_cast<double>(samples));
  const Variable balance = mean_balance(terms.output);
  terms.total = balance.defined() ? add(terms.loss.loss, scale(balance, kBalanceWeight)) : terms.loss.loss;
  return terms;
}

void check_training(const GoldenCase& golden, const Dit& model, const NoiseSchedule& schedule) {
  const TrainTerms terms = train_terms(golden, model, schedule);
  const std::string out = "out.train_terms.";
  golden.check(out + "x_t", terms.noisy);
  golden.check(out + "model_output", terms.output.prediction.value());
  golden.check(out + "mse", terms.loss.squared_error);
  golden.check(out + "vb", terms.loss.bound);
  Tensor sums = terms.loss.squared_error.clone();
  sums.add(terms.loss.bound);
  golden.check(out + "loss", sums);
  const Variable balance = mean_balance(terms.output);
  golden.check(out + "lb_loss", balance.defined() ? balance.value().item() : 0.0);
  golden.check(out + "total", terms.total.value());
  terms.total.backward();
  for (const NamedParameter& p : model.parameters()) {
    const std::string name = "grad_train.param." + p.name;
    if (golden.has(name)) golden.check(name, p.variable.grad());
  }
  zero_gradients(model);
}

/// The reference's guidance: the first half of a batch with labels, the second without.
Tensor guided(const Dit& model, const Tensor& half, const Tensor& steps, const Tensor& labels,
              double factor) {
  const std::int64_t pairs = half.dim(0);
  const Tensor both = empty({2 * pairs, half.dim(1), half.dim(2), half.dim(3)}, DType::kFloat32);
  both.slice(0, pairs).copy_from(half);
  both.slice(pairs, 2 * pairs).copy_from(half);
  Tensor prediction = model.forward({Variable(both), steps, labels}).prediction.value();
  const Tensor without = prediction.slice(pairs, 2 * pairs);
  guide(prediction.slice(0, pairs), without, 3, factor);
  // The reference gives both halves the guided channels.
  for (std::int64_t b = 0; b < pairs; ++b) {
    const std::int64_t guided = 3 * half.dim(2) * half.dim(3);
    std::copy_n(prediction.select(b).data<float>(), guided, without.select(b).data<float>());
  }
  return prediction;
}

void check_steps(const GoldenCase& golden, const Dit& model, const NoiseSchedule& schedule) {
  const Tensor x = golden.tensor("in.step.x"), noise = golden.tensor("in.step.noise"),
               t = golden.tensor("in.step.t");
  const auto steps = t.span<std::int64_t>();
  Tensor mapped = empty_like(t);
  for (std::int64_t b = 0; b < t.numel(); ++b)
    mapped.data<std::int64_t>()[b] = schedule[t.data<std::int64_t>()[b]].trained_step;
  golden.check("out.step.mapped_t", mapped);
  const Tensor prediction = model.forward({Variable(x), mapped, golden.tensor("in.y")}).prediction.value();
  golden.check("out.step.model_output", prediction);
  for (const bool clip : {true, false}) {
    const std::string kind = clip ? "clip" : "noclip", out = "out.p_sample." + kind + ".";
    const ReverseStep back = reverse_step(schedule, x, prediction, steps, noise, {.clip_start = clip});
    golden.check(out + "sample", back.sample);
    golden.check(out + "pred_xstart", back.start);
    golden.check(out + "mean", back.mean);
    golden.check(out + "log_variance", back.log_variance);
    const std::string before = "out.ddim." + kind + ".eta", behind = ".sample";
    for (const std::string& name : golden.names(before)) {
      const double eta = std::stod(name.substr(before.size(), name.size() - before.size() - behind.size()));
      const ReverseStep ddim =
          reverse_step(schedule, x, prediction, steps, noise, {SamplerKind::kDdim, eta, clip});
      golden.check(name, ddim.sample);
    }
  }
}

/// Whole loops, with guidance, of as many steps as the case says.
void check_loops(const GoldenCase& golden, const Dit& model) {
  const Tensor z = golden.tensor("in.loop.z"), noise = golden.tensor("in.loop.noise"),
               labels = golden.tensor("in.cfg.y");
  const double factor = golden.config().at("cfg_scale");
  const std::int64_t count = golden.config().at("loop_steps"), pairs = golden.config().at("cfg_pairs");
  const NoiseSchedule schedule =
      NoiseSchedule::linear(kDiffusionSteps).respaced(even_steps(kDiffusionSteps, count));
  for (const auto& [name, kind] :
       {std::pair{"p_loop", SamplerKind::kAncestral}, {"ddim_loop", SamplerKind::kDdim}}) {
    for (const bool clip : {true, false}) {
      Tensor x = z;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::vector<std::int64_t> steps(static_cast<std::size_t>(z.dim(0)), count - 1 - i);
        const Tensor trained =
            full({z.dim(0)}, static_cast<double>(schedule[count - 1 - i].trained_step), DType::kInt64);
        const Tensor prediction = guided(model, x.slice(0, pairs), trained, labels, factor);
        x = reverse_step(schedule, x, prediction, steps, noise.select(i), {.kind = kind, .clip_start = clip})
                .sample;
      }
      golden.check("out." + std::string(name) + (clip ? ".clip" : ".noclip"), x);
    }
  }
}

void check_labels(const GoldenCase& golden, const Dit& model) {
  const Tensor dropped = golden.tensor("in.y").clone(), ids = golden.tensor("in.drop_ids");
  for (std::int64_t b = 0; b < ids.numel(); ++b) {
    if (ids.data<std::int64_t>()[b] == 1) dropped.data<std::int64_t>()[b] = model.config().no_class();
  }
  golden.check("out.drop.labels", dropped);
  golden.check(
      "out.drop.eval",
      model.forward({Variable(golden.tensor("in.x")), golden.tensor("in.t"), dropped}).prediction.value());
}

}  // namespace

GOLDEN_KIND(dit_model) {
  DitConfig config = config_of(golden);
  for (const RecomputeLevel level : kRecomputeLevels) {
    INFO("recompute " << static_cast<int>(level));
    config.recompute = level;
    const Dit model(config, DType::kFloat32);
    golden.load(model, "param.");
    const DitInput input = input_of(golden, "in.x", "in.t", "in.y");
    check_gradients(golden, model, input);
    const NoiseSchedule whole = NoiseSchedule::linear(kDiffusionSteps);
    const bool extras = golden.config().value("extras", false);
    if (extras) check_training(golden, model, whole);
    const NoGrad no_grad;
    golden.check("out.eval", model.forward(input).prediction.value());
    check_inside(golden, model, input);
    check_blocks(golden, model, input);
    if (!extras) continue;
    check_labels(golden, model);
    const std::int64_t pairs = golden.config().at("cfg_pairs");
    golden.check("out.cfg",
                 guided(model, golden.tensor("in.cfg.x").slice(0, pairs), golden.tensor("in.cfg.t"),
                        golden.tensor("in.cfg.y"), golden.config().at("cfg_scale")));
    check_steps(golden, model, whole.respaced(even_steps(kDiffusionSteps, 250)));
    check_loops(golden, model);
  }
}

GOLDEN_KIND(dit_model_dense) {
  const Dit model(config_of(golden), DType::kFloat32);
  golden.load(model, "param.");
  const DitInput input = input_of(golden, "in.x", "in.t", "in.y");
  check_gradients(golden, model, input);
  const NoGrad no_grad;
  golden.check("out.eval", model.forward(input).prediction.value());
}

/// A file of the released code's training: the model and its moving average give the reference's outputs.
GOLDEN_KIND(torch_expected) {
  constexpr std::string_view kExpected = ".expected.safetensors";
  std::string path = golden.path();
  path.replace(path.size() - kExpected.size(), kExpected.size(), ".pt");
  const DitInput input = input_of(golden, "in.x", "in.t", "in.y");
  const NoGrad no_grad;
  for (const std::string which : {"model", "ema"}) {
    const Dit model(config_of(golden), DType::kFloat32);
    load_weights(model.parameters(), *open_torch_weights(path, which));
    golden.check("out." + which, model.forward(input).prediction.value());
  }
}

namespace {

using OfStep = std::function<double(const NoiseSchedule&, std::int64_t)>;

/// The reference's arrays by name.
const std::map<std::string, OfStep>& arrays() {
  using S = const NoiseSchedule&;
  using I = std::int64_t;
  static const std::map<std::string, OfStep> all = {
      {"betas", [](S s, I i) { return s[i].beta; }},
      {"log_betas", [](S s, I i) { return s[i].log_beta; }},
      {"alphas_cumprod", [](S s, I i) { return s[i].product; }},
      {"alphas_cumprod_prev", [](S s, I i) { return s[i].product_before; }},
      {"alphas_cumprod_next", [](S s, I i) { return i + 1 < s.size() ? s[i + 1].product : 0; }},
      {"sqrt_alphas_cumprod", [](S s, I i) { return s[i].signal; }},
      {"sqrt_one_minus_alphas_cumprod", [](S s, I i) { return s[i].noise; }},
      {"log_one_minus_alphas_cumprod", [](S s, I i) { return std::log(1 - s[i].product); }},
      {"sqrt_recip_alphas_cumprod", [](S s, I i) { return s[i].per_signal; }},
      {"sqrt_recipm1_alphas_cumprod", [](S s, I i) { return s[i].per_noise; }},
      {"posterior_variance", [](S s, I i) { return s[i].posterior_variance; }},
      {"posterior_log_variance_clipped", [](S s, I i) { return s[i].log_posterior; }},
      {"posterior_mean_coef1", [](S s, I i) { return s[i].mean_of_start; }},
      {"posterior_mean_coef2", [](S s, I i) { return s[i].mean_of_sample; }},
  };
  return all;
}

void check_schedule(const GoldenCase& golden, const std::string& prefix, const NoiseSchedule& schedule) {
  for (const auto& [name, of_step] : arrays()) {
    const Tensor mine = empty({schedule.size()}, DType::kFloat64);
    for (std::int64_t i = 0; i < schedule.size(); ++i) mine.data<double>()[i] = of_step(schedule, i);
    golden.check(prefix + name, mine);
  }
  const Tensor map = empty({schedule.size()}, DType::kInt64);
  for (std::int64_t i = 0; i < schedule.size(); ++i) map.data<std::int64_t>()[i] = schedule[i].trained_step;
  golden.check(prefix + "timestep_map", map);
}

}  // namespace

GOLDEN_KIND(dit_schedule) {
  const nlohmann::json& c = golden.config();
  const NoiseSchedule whole = NoiseSchedule::linear(kDiffusionSteps);
  for (const auto& [name, text] : c.at("respacings").items()) {
    const std::string steps = text;
    check_schedule(golden, "out." + name + ".",
                   steps.empty() ? whole : whole.respaced(steps_of(steps, kDiffusionSteps)));
  }
  for (const std::string text : c.at("maps"))
    golden.check("out.map." + text, tensor_of<std::int64_t>({std::ssize(steps_of(text, kDiffusionSteps))},
                                                            steps_of(text, kDiffusionSteps)));
  golden.check("out.pos_embed", grid_positions(c.at("pos_grid"), c.at("pos_dim")));
  const Tensor times = golden.tensor("in.t_embed"), table = time_embeddings(kDiffusionSteps, c.at("freq"));
  const Tensor embedded = empty({times.numel(), table.dim(1)}, DType::kFloat32);
  const Tensor start = golden.tensor("in.x_start"), noise = golden.tensor("in.noise");
  const Tensor noisy = empty_like(start);
  for (std::int64_t b = 0; b < times.numel(); ++b) {
    const auto t = static_cast<std::int64_t>(times.data<float>()[b]);
    embedded.select(b).copy_from(table.select(t));
    add_noise(whole[t], start.select(b).span<float>(), noise.select(b).span<float>(),
              noisy.select(b).span<float>());
  }
  // The reference rounds angles of up to 999 to float32.
  const Tensor expected = golden.tensor("out.timestep_embedding");
  for (std::int64_t i = 0; i < expected.numel(); ++i)
    CHECK(embedded.data<float>()[i] == Approx(expected.data<float>()[i]).margin(1e-4));
  golden.mark_compared("out.timestep_embedding");
  golden.check("out.q_sample", noisy);
}
