#include "train/heads/init/initialise_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "models/layers/output_gate.h"
#include "models/llm/lora.h"
#include "ops/linalg/mix_rows.h"
#include "ops/shape/reshape.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/heads/init/divergence.h"
#include "train/heads/init/router_start.h"
#include "train/heads/init/shared_heads.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/task/load_model.h"
#include "train/weights/compare_weights.h"
#include "train/weights/describe_weights.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

// ---- Weights of the source ----

/// A matrix that has more rows in the model than in the source.
struct Growth {
  NamedParameter parameter;
  std::int64_t old_rows;
};

/// Replaces each parameter that has more rows than in the source by a view of its first rows, which the
/// source fills. Returns these parameters.
std::vector<Growth> take_growth(std::vector<NamedParameter>& parameters, const WeightFile& weights,
                                const WeightNames& names) {
  std::vector<Growth> found;
  for (NamedParameter& p : parameters) {
    if (!names.rows_may_grow(p.name)) continue;
    const WeightInfo* info = weights.find(p.name);
    if (info == nullptr || info->shape.rank() != 2) continue;
    const std::int64_t rows = info->shape[0];
    if (info->shape[1] != p.variable.dim(1) || rows < 1 || rows >= p.variable.dim(0)) continue;
    found.push_back({p, rows});
    p.variable = Variable(p.variable.value().slice(0, rows));
  }
  return found;
}

/// A parameter that is made from a tensor of another shape.
struct Resized {
  NamedParameter parameter;
  Variable source;  ///< filled from the file
  Tensor weights;   ///< WeightNames::resizing
};

/// Replaces each parameter that WeightNames::resizing makes by memory for the source's tensor.
std::vector<Resized> take_resized(std::vector<NamedParameter>& parameters, const WeightFile& weights,
                                  const WeightNames& names) {
  std::vector<Resized> found;
  for (NamedParameter& p : parameters) {
    const WeightInfo* info = weights.find(p.name);
    if (info == nullptr || info->shape == p.variable.shape()) continue;
    const Tensor matrix = names.resizing(p.name, info->shape, p.variable.shape());
    if (!matrix.defined()) continue;
    const Variable source(empty(info->shape, DType::kFloat32));
    found.push_back({p, source, matrix});
    p.variable = source;
  }
  return found;
}

void resize(const Resized& resized) {
  const auto& [parameter, source, weights] = resized;
  const Variable rows = reshape(source, {weights.dim(1), -1});
  const Tensor result = mix_rows(weights, rows).value();
  parameter.variable.value().copy_from(result.reshape(parameter.variable.shape()));
  log_info("init: " + parameter.name + ": " + to_string(source.shape()) + " resized to " +
           to_string(parameter.variable.shape()));
}

/// The router parameters, if the source has none of them: then they do not count as missing. A source with
/// some of them has to have all.
std::vector<NamedParameter> take_routers(const Model& model, const WeightFile& weights,
                                         WeightDifferences& differences) {
  std::vector<NamedParameter> routers = router_parameters(model);
  if (std::ranges::any_of(routers, [&](const NamedParameter& p) { return weights.find(p.name) != nullptr; }))
    return {};
  std::erase_if(differences.missing, [&](const std::string& name) {
    return std::ranges::find(routers, name, &NamedParameter::name) != routers.end();
  });
  return routers;
}

/// The gates of attention's output, likewise.
std::vector<GatedProjection> take_gates(const Model& model, const WeightFile& weights,
                                        WeightDifferences& differences) {
  std::vector<GatedProjection> gates = gated_projections(model);
  const auto is_in_source = [&](const GatedProjection& g) { return weights.find(g.gate.name) != nullptr; };
  if (std::ranges::any_of(gates, is_in_source)) return {};
  for (const GatedProjection& g : gates) std::erase(differences.missing, g.gate.name);
  return gates;
}

/// The adapters' matrices, likewise.
std::vector<NamedParameter> take_adapters(const Model& model, const WeightFile& weights,
                                          WeightDifferences& differences) {
  std::vector<NamedParameter> adapters = model.parameters();
  std::erase_if(adapters, [](const NamedParameter& p) { return !is_adapter(p.name); });
  if (std::ranges::any_of(adapters, [&](const NamedParameter& p) { return weights.find(p.name) != nullptr; }))
    return {};
  std::erase_if(differences.missing, [](const std::string& name) { return is_adapter(name); });
  return adapters;
}

constexpr double kNoise = 0.1;  // in standard deviations of the old rows

/// By column.
struct Columns {
  std::vector<double> mean, std;
};

Columns columns_of_rows(const Tensor& rows) {
  const std::int64_t width = rows.dim(1);
  const auto count = static_cast<double>(rows.dim(0));
  Columns columns{std::vector<double>(static_cast<std::size_t>(width)),
                  std::vector<double>(static_cast<std::size_t>(width))};
  const float* values = rows.data<float>();
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    columns.mean[static_cast<std::size_t>(i % width)] += values[i] / count;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const auto j = static_cast<std::size_t>(i % width);
    columns.std[j] += std::pow(values[i] - columns.mean[j], 2) / count;
  }
  for (double& value : columns.std) value = std::sqrt(value);
  return columns;
}

/// How the parameters of a model relate to the tensors of a source.
struct SourceMatch {
  std::vector<NamedParameter> to_load;  ///< parameters to load; of those with more rows, the first rows
  std::vector<Growth> growths;
  std::vector<Resized> resized;
  std::vector<NamedParameter> missing_routers;
  std::vector<GatedProjection> missing_gates;
  std::vector<NamedParameter> missing_adapters;
};

/// Why a dense source never fits the model; empty if one may.
std::string why_no_dense_source(const FamilyConfig& run) {
  const MohConfig* moh = run.moh();
  if (moh == nullptr || moh->routing->keeps_heads()) return "";
  return "; with model.moh.routing: " + std::string(moh->routing->name) +
         " the output projection is of slots, and no dense model can be continued";
}

/// Throws CheckpointError that lists the differences between the model and the source.
SourceMatch match_source(const Model& model, const WeightFile& weights, const Family& family,
                         const FamilyConfig& run) {
  const WeightNames& names = family.weight_names();
  const auto anew = [&](std::string_view name) { return names.begins_anew(name, run); };
  SourceMatch match{model.parameters(), {}, {}, {}, {}, {}};
  std::erase_if(match.to_load, [&](const NamedParameter& p) { return anew(p.name); });
  match.growths = take_growth(match.to_load, weights, names);
  match.resized = take_resized(match.to_load, weights, names);
  WeightDifferences differences = compare_weights(infos_of(tensors_of(match.to_load)), weights, &names);
  std::erase_if(differences.unexpected, anew);
  match.missing_routers = take_routers(model, weights, differences);
  match.missing_gates = take_gates(model, weights, differences);
  match.missing_adapters = take_adapters(model, weights, differences);
  if (differences.none()) return match;
  throw CheckpointError("init.from: " + weights.path().string() + ": the tensors do not match the model: " +
                        list(differences) + why_no_dense_source(run));
}

/// Checks the same for the model of a run, without allocating it.
void require_match(const RunConfig& run, const WeightFile& weights, const Families& families) {
  FamilyValue config = run.family;
  if (MohConfig* moh = config->moh()) moh->shared_heads = {};  // a rule may not have been measured yet
  const Family& family = families.of(run);
  std::unique_ptr<Model> model;
  {
    const DryRunScope no_memory;
    model = family.make_model(*config, placement_of(run));
  }
  match_source(*model, weights, family, *config);  // which reads elements
}

/// Throws CheckpointError if tensors of the model that the source describes are missing or have other shapes:
/// then configuration and weights contradict each other. Additional tensors are left to load_source().
void require_described(const StoredModel& source) {
  if (source.config() == nullptr) return;
  const FamilyConfig& model = *source.config();
  WeightDifferences found =
      compare_weights(expected_tensors(source.families().of(model), model), source.weights());
  found.unexpected.clear();
  if (found.none()) return;
  throw CheckpointError("init.from: " + source.weights().path().string() +
                        ": the tensors do not match the model that " + source.described_by().string() +
                        " describes: " + list(found));
}

// ---- Routers that the source lacks ----

void log_divergence(const std::string& what, const Model& model, const Calibration& calibration) {
  log_info("init: " + what + ": KL divergence from the dense model " +
           format_fixed(divergence_from_dense(model, calibration), 6) + " nats per " +
           std::string(calibration.input()));
}

/// Refuses a value that needs measurements on calibration batches where the family has none.
void require_batches(const Calibration& calibration, std::string_view key, std::string_view value,
                     const RunConfig& run, std::string_view instead) {
  if (calibration.size() > 0) return;
  throw ConfigError(
      error_message(key, "", "a value that needs no calibration batches",
                    std::string(value) + ": task " + std::string(run.family->task()) + " has none", instead));
}

RouterWeights start_of(RouterStart start, const Model& model, const std::vector<NamedParameter>& routers,
                       const RunConfig& run, const Calibration& calibration) {
  switch (start) {
    case RouterStart::kZero:
      return zero_start(routers);
    case RouterStart::kRandom:
      return random_start(routers, model.init_std(), run.random_seed());
    case RouterStart::kCalibrated:
      return calibrated_start(model, routers, calibration);
  }
  fail_check(__FILE__, __LINE__, "start", "unknown RouterStart");
}

/// Whether the routers have maps of the layers' inputs, which can be fitted.
bool fits_input(const Model& model) {
  return std::ranges::any_of(model.routing(),
                             [](const HeadRoutingOptions& layer) { return layer.kind->fits_input; });
}

/// Measures the model with every router_start, and applies the configured one.
void start_routers(const Model& model, const std::vector<NamedParameter>& routers, const RunConfig& run,
                   const Calibration& calibration) {
  const RouterStart wanted = run.init.moh.router_start;
  if (wanted == RouterStart::kCalibrated && !fits_input(model))
    throw ConfigError(error_message("init.moh.router_start", "", "zero or random",
                                    std::string(name_of(wanted)),
                                    "it fits logits to a layer's input, which this router does not read"));
  if (wanted == RouterStart::kCalibrated)
    require_batches(calibration, "init.moh.router_start", name_of(wanted), run, "set it to zero or random");
  if (calibration.size() == 0) return start_of(wanted, model, routers, run, calibration).apply();
  RouterWeights chosen;
  for (const RouterStart start : {RouterStart::kZero, RouterStart::kRandom, RouterStart::kCalibrated}) {
    if (start == RouterStart::kCalibrated && !fits_input(model)) continue;
    RouterWeights weights = start_of(start, model, routers, run, calibration);
    weights.apply();
    log_divergence("router_start " + std::string(name_of(start)) + (start == wanted ? " (selected)" : ""),
                   model, calibration);
    if (start == wanted) chosen = std::move(weights);
  }
  chosen.apply();
}

}  // namespace

StoredModel open_source(const RunConfig& run, const Families& families) {
  StoredModel source = StoredModel::of_init(run, families);
  const WeightNames& names = families.of(run).weight_names();
  const auto model =
      source.config() != nullptr ? source.config()->clone() : names.config_of(source.weights(), *run.family);
  std::string text;
  for (const config::Difference& d : run.family->disagreements(*model))
    text += "\n  " + error_message(d.key, "", d.expected, d.found, d.fix);
  if (!text.empty())
    throw ConfigError("init.from: " + run.init.from +
                      ": differs from the model that the run describes:" + text);
  require_described(source);
  require_match(run, source.weights(), families);
  return source;
}

std::vector<NamedParameter> load_source(const Model& model, const StoredModel& source, const RunConfig& run,
                                        const Family& family) {
  const WeightFile& weights = source.weights();
  SourceMatch match = match_source(model, weights, family, *run.family);
  load_weights(match.to_load, weights);
  for (const Resized& resized : match.resized) resize(resized);
  for (const Growth& growth : match.growths) {
    const auto& [name, variable] = growth.parameter;
    log_info("init: " + name + ": " + std::to_string(growth.old_rows) + " rows extended to " +
             std::to_string(variable.dim(0)));
    fill_new_rows(variable.value(), growth.old_rows, run.init.new_rows, model.init_std(),
                  initialisation_key(run.random_seed(), name));
  }
  if (!match.missing_gates.empty()) {
    start_gates(match.missing_gates);
    log_info("init: " + std::to_string(match.missing_gates.size()) +
             " attention layers get gates of 1/2, and output projections twice those of the source");
  }
  for (const NamedParameter& p : match.missing_adapters)
    initialise_adapter(p, initialisation_key(run.random_seed(), p.name));
  return std::move(match.missing_routers);
}

std::unique_ptr<Model> load_teacher(const StoredModel& source, const RunConfig& run, const Family& family) {
  const MohConfig* moh = source.config() != nullptr ? source.config()->moh() : nullptr;
  if (moh != nullptr && moh->router->routes()) {
    throw ConfigError(error_message("init.distill.teacher", run.init.from, "a dense checkpoint as the source",
                                    "one with router " + std::string(name_of(moh->router)),
                                    "set it to twin"));
  }
  const RunConfig dense = teacher_run(run);
  std::unique_ptr<Model> teacher = family.make_model(*dense.family, placement_of(dense));
  load_source(*teacher, source, dense, family);
  return teacher;
}

void fill_new_rows(const Tensor& matrix, std::int64_t old_rows, NewRows how, double std, RandomKey key) {
  const std::int64_t width = matrix.dim(1);
  const Tensor target = matrix.slice(old_rows, matrix.dim(0));
  if (how == NewRows::kZeros) return target.fill(0);
  Columns columns;
  if (how == NewRows::kMean)
    columns = columns_of_rows(matrix.slice(0, old_rows).to(kCpu).to(DType::kFloat32));
  const Tensor rows = empty(target.shape(), DType::kFloat32);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const double noise = random_normal(key, static_cast<std::uint64_t>(old_rows * width + i));
    const auto j = static_cast<std::size_t>(i % width);
    const double value =
        how == NewRows::kMean ? columns.mean[j] + kNoise * columns.std[j] * noise : std * noise;
    rows.data<float>()[i] = static_cast<float>(value);
  }
  target.copy_from(rows);
}

void settle_shared_heads(RunConfig& run, const Family& family, const StoredModel& source,
                         const Calibration& calibration) {
  MohConfig* moh = run.family->moh();
  if (moh == nullptr || !moh->router->routes() || !moh->shared_heads.to_be_measured()) return;
  require_batches(calibration, "model.moh.shared_heads", name_of(moh->shared_heads.rule), run,
                  "set it to first or list the heads");
  const std::unique_ptr<Model> dense = family.make_model(*teacher_run(run).family, placement_of(run));
  load_source(*dense, source, run, family);
  moh->shared_heads = choose_shared_heads(*dense, *moh, run.family->kv_heads(), calibration);
}

void initialise_from_source(const Model& model, const StoredModel& source, const RunConfig& run,
                            const Family& family, const Calibration& calibration) {
  log_info("init: weights of " + source.weights().path().string() + " (" + format_and_part(source.weights()) +
           ")");
  const std::vector<NamedParameter> routers = load_source(model, source, run, family);
  const MohConfig* moh = run.family->moh();
  if (!routers.empty()) {
    start_routers(model, routers, run, calibration);
  } else if (moh != nullptr && moh->router->routes() && moh->routing->keeps_heads() &&
             calibration.size() > 0) {
    log_divergence("router " + std::string(name_of(moh->router)), model, calibration);
  }
}

}  // namespace moh
