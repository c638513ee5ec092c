#include "train/apps/plan/plan_report.h"

#include <spdlog/fmt/ostr.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>

#include "core/parallel.h"
#include "train/base/log/format.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// "GPU" or "CPU".
const char* device_word(const TrainingPlan& plan) {
  return plan.config.device == kCpu ? "CPU" : "GPU";
}

std::string count_text(std::int64_t value) {
  return format_count(static_cast<double>(value));
}

template <class BytesOf>
Json by_purpose(const MemoryPlan& memory, const BytesOf& bytes_of) {
  Json bytes;
  for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
    bytes[std::string(memory_purpose_name(static_cast<MemoryPurpose>(i)))] = bytes_of(i);
  }
  bytes["total"] = memory.stats.total.peak_bytes;
  return bytes;
}

Json memory_json(const TrainingPlan& plan, const MemoryChoice& choice) {
  const MemoryPlan& memory = choice.memory;
  Json object = {{"configured", &choice == &plan.configured()},
                 {"peak_bytes",
                  by_purpose(memory, [&](std::size_t i) { return memory.stats.by_purpose[i].peak_bytes; })},
                 {"at_peak_bytes", by_purpose(memory, [&](std::size_t i) { return memory.at_peak[i]; })},
                 {"evaluation_bytes", memory.evaluation_bytes},
                 {"recomputed_share", memory.recomputed}};
  if (plan.options.memory_bytes) {
    object["fits"] = plan.fits(choice);
    object["largest_batch_size"] = choice.largest_batch;
  }
  return object;
}

// ---- the table ----

void write_evaluations(std::ostream& out, const TrainingPlan& plan) {
  const std::optional<EvaluationPlan> evaluations = plan.evaluations();
  if (!evaluations || evaluations->count == 0) return;
  const std::string_view items = plan.step.unit.plural;
  if (!evaluations->items) {
    fmt::print(out, "evaluations         {}, each of all held-out {}, however many; not counted\n",
               evaluations->count, items);
    return;
  }
  fmt::print(out, "evaluations         {} of up to {} {}, {:.3g}% of the steps' operations\n",
             evaluations->count, count_text(*evaluations->items), items,
             100 * plan.evaluation_share().value());
}

void write_model(std::ostream& out, const TrainingPlan& plan) {
  const RunConfig& config = plan.config;
  const StepFlops& flops = plan.flops_per_item;
  const auto& [item, items, per_second] = plan.step.unit;
  fmt::print(out, "parameters          {}, {}\n", count_text(plan.step.parameters),
             dtype_name(dtype_of(config.precision)));
  if (plan.step.frozen_parameters > 0)
    fmt::print(out, "  trained           {}, the others are frozen\n",
               count_text(plan.step.parameters - plan.step.frozen_parameters));
  fmt::print(out, "{:<20}{:.4g} to train on, {:.4g} forward\n", fmt::format("FLOP per {}", item),
             flops.routed, flops.routed_forward);
  if (has_router(config)) {
    fmt::print(out,
               "  all heads active  {:.4g} and {:.4g}; here {:.1f}% of the heads, {:.3f} of the operations\n",
               flops.dense, flops.dense_forward, 100 * plan.step.activated_heads, flops.routed / flops.dense);
  }
  fmt::print(out, "step                {} {} x {} x {} samples of {} {} = {} {}\n", plan.options.gpus,
             device_word(plan), config.train.accumulate, config.train.batch_size, plan.items_per_sample(),
             items, count_text(plan.items_per_step()), items);
  if (const std::optional<std::int64_t> steps = plan.steps()) {
    fmt::print(out, "run                 {} steps, {} {}\n", *steps,
               count_text(plan.items_per_step() * *steps), items);
  } else {
    fmt::print(out, "run                 {} epochs\n", config.train.epochs);
  }
  write_evaluations(out, plan);
}

void write_memory(std::ostream& out, const TrainingPlan& plan) {
  const auto title = [&](const MemoryChoice& choice) {
    return std::string(name_of(choice.recompute)) + (&choice == &plan.configured() ? " *" : "");
  };
  /// Writes a row with a column for each setting of model.recompute.
  const auto row = [&](const std::string& name, const auto& cell) {
    fmt::print(out, "  {:<18}", name);
    for (const MemoryChoice& choice : plan.memory)
      fmt::print(out, "{:>{}}", cell(choice), std::max<std::size_t>(12, title(choice).size() + 2));
    out << '\n';
  };
  out << "\nmemory of each " << device_word(plan) << " at its peak (* as configured)\n";
  if (plan.memory.size() > 1) row("model.recompute", title);
  for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
    const std::string name(memory_purpose_name(static_cast<MemoryPurpose>(i)));
    row(name, [i](const MemoryChoice& choice) { return format_bytes(choice.memory.at_peak[i]); });
  }
  row("total", [](const MemoryChoice& choice) { return format_bytes(choice.memory.stats.total.peak_bytes); });
  if (plan.memory.size() > 1) {
    row("computed again",
        [](const MemoryChoice& choice) { return fmt::format("{:.1f}%", 100 * choice.memory.recomputed); });
  }
  row("evaluation, total",
      [](const MemoryChoice& choice) { return format_bytes(choice.memory.evaluation_bytes); });
  if (!plan.options.memory_bytes) return;
  row("fits", [&](const MemoryChoice& choice) { return std::string(plan.fits(choice) ? "yes" : "no"); });
  row("largest batch_size", [](const MemoryChoice& choice) {
    return choice.largest_batch == 0 ? "none" : std::to_string(choice.largest_batch);
  });
}

void write_verdict(std::ostream& out, const TrainingPlan& plan) {
  if (!plan.options.memory_bytes) return;
  const std::string room = format_bytes(*plan.options.memory_bytes);
  const bool fits = plan.fits(plan.configured());
  out << (fits ? "fits in " : "does not fit in ") << room << " as configured";
  if (const MemoryChoice* least = plan.least_recomputing(); least != nullptr && plan.memory.size() > 1) {
    fmt::print(out, "; with the least computed again by model.recompute: {}", name_of(least->recompute));
  }
  for (const MemoryChoice& choice : plan.memory) {
    if (fits || choice.largest_batch == 0) continue;
    out << "; would with ";
    if (plan.memory.size() > 1) out << "model.recompute: " << name_of(choice.recompute) << ", ";
    out << "train.batch_size: " << choice.largest_batch << (plan.options.gpus > 1 ? " on each" : "");
  }
  out << '\n';
  if (std::ranges::any_of(plan.memory, [](const MemoryChoice& c) { return c.largest_batch > 0; })) return;
  out << "smallest possible, with train.batch_size: 1:";
  for (const LeastMemory& least : plan.least) {
    const bool last = &least == &plan.least.back();
    fmt::print(out, " {} {}", name_of(least.precision), format_bytes(least.bytes));
    if (plan.memory.size() > 1) fmt::print(out, " (model.recompute: {})", name_of(least.recompute));
    out << (last ? '\n' : ',');
  }
}

void write_disk(std::ostream& out, const TrainingPlan& plan) {
  const DiskPlan disk = plan.disk();
  fmt::print(out, "\ncheckpoints         {} each, at most {} at a time: {} on the disk\n",
             format_bytes(disk.bytes), disk.most, format_bytes(disk.total()));
}

void write_days(std::ostream& out, const TimePlan& time) {
  if (!time.seconds) return;
  constexpr double kDay = 86400;
  const double evaluations = time.evaluation_seconds.value_or(0);
  fmt::print(out, "  run               {:.3g} days", (*time.seconds + evaluations) / kDay);
  if (evaluations > 0) fmt::print(out, ", {:.2g} of them for evaluations", evaluations / kDay);
  out << '\n';
}

void write_time(std::ostream& out, const TrainingPlan& plan) {
  if (!plan.time) {
    out << "\nno time estimate without --peak-tflops\n";
    return;
  }
  const PeakRate& peak = *plan.options.peak;
  const std::string whose =
      peak.name.empty() ? "" : " (" + peak.name + ", published, " + peak.arithmetic + ")";
  out << "\nat " << 100 * plan.options.mfu << "% of " << peak.tflops << " TFLOP/s" << whose << " on each "
      << device_word(plan) << '\n';
  fmt::print(out, "  {:<18}{}\n", fmt::format("{}/s", plan.step.unit.plural),
             format_count(plan.time->items_per_s));
  fmt::print(out, "  step              {:.3g} s\n", plan.time->step_seconds);
  write_days(out, *plan.time);
  if (!peak.hint.empty()) fmt::print(out, "  on this GPU {} TFLOP/s\n", peak.hint);
}

/// The state that a stage of ZeRO divides; there are no gradients to divide with a fused update.
const char* divided_by(std::int64_t zero, bool fused) {
  constexpr std::array kDivided = {"nothing", "the optimiser's state", "the optimiser's state and gradients",
                                   "the weights, their gradients and the optimiser's state"};
  constexpr std::array kFused = {"nothing", "the optimiser's state", "the optimiser's state",
                                 "the weights and the optimiser's state"};
  return (fused ? kFused : kDivided).at(static_cast<std::size_t>(zero));
}

/// "Each holds the model and its gradients, and 1/8 of the optimiser's state (comm.zero: 1)."
std::string holdings(const RunConfig& config, std::int64_t devices) {
  constexpr std::array kWhole = {"the model and its gradients, and ", "the model and its gradients, and ",
                                 "the model, and ", ""};
  constexpr const char* kModel = "the model, gradients of a few buckets (optim.fused_update), and ";
  constexpr std::array kFused = {kModel, kModel, kModel,
                                 "gradients of a few buckets (optim.fused_update), and "};
  const bool fused = config.optim.adamw.fused_update;
  const std::int64_t zero = config.comm.zero;
  const std::string whole = (fused ? kFused : kWhole).at(static_cast<std::size_t>(zero));
  if (zero == 0) return "Each holds " + whole + "all of the optimiser's state, which --zero 1 would divide.";
  return fmt::format("Each holds {}1/{} of {} (comm.zero: {}).", whole, devices, divided_by(zero, fused),
                     zero);
}

void write_notes(std::ostream& out, const TrainingPlan& plan) {
  const std::int64_t zero = plan.config.comm.zero, devices = plan.options.gpus;
  if (devices > 1) {
    fmt::print(out,
               "\n{} devices share the samples of each step (data parallelism). {}\n"
               "Your MFU has to include gradient communication.\n",
               devices, holdings(plan.config, devices));
  } else if (zero > 0) {
    fmt::print(
        out,
        "\ncomm.zero: {} divides {} among processes, and this is the plan of a single one, with all of "
        "it; {} N plans each of N.\n",
        zero, divided_by(zero, plan.config.optim.adamw.fused_update),
        plan.config.device == kCpu ? "--devices" : "--gpus");
  }
}

}  // namespace

void write_json_line(std::ostream& out, const TrainingPlan& plan, const std::string& config,
                     const std::vector<std::string>& overrides) {
  const RunConfig& run = plan.config;
  Json object = {{"config", config},
                 {"overrides", overrides},
                 {"device", device_name(run.device)},
                 {"dtype", dtype_name(dtype_of(run.precision))},
                 {"threads", num_threads()},
                 {"gpus", plan.options.gpus},
                 {"zero", run.comm.zero},
                 {"parameters", plan.step.parameters},
                 {"frozen_parameters", plan.step.frozen_parameters},
                 {"activated_heads", plan.step.activated_heads},
                 {"flops_per_" + std::string(plan.step.unit.singular), plan.flops_per_item.routed},
                 {"flops_per_" + std::string(plan.step.unit.singular) + "_dense", plan.flops_per_item.dense},
                 {"batch_size", run.train.batch_size},
                 {"accumulate", run.train.accumulate},
                 {std::string(plan.step.unit.plural) + "_per_step", plan.items_per_step()}};
  if (plan.steps()) {
    object["steps"] = *plan.steps();
  } else {
    object["epochs"] = run.train.epochs;
  }
  if (const std::optional<EvaluationPlan> evaluations = plan.evaluations()) {
    object["evaluations"] = evaluations->count;
    if (evaluations->items) {
      object["items_per_evaluation"] = *evaluations->items;
      object["evaluation_share"] = plan.evaluation_share().value();
    }
  }
  for (const auto& [name, size] : plan.step.sample_sizes) object[std::string(name)] = size;
  for (const MemoryChoice& choice : plan.memory) {
    object["recompute"][std::string(name_of(choice.recompute))] = memory_json(plan, choice);
  }
  for (const LeastMemory& least : plan.memory.empty() ? std::span<const LeastMemory>() : plan.least)
    object["least_bytes"][std::string(name_of(least.precision))] = least.bytes;
  const DiskPlan disk = plan.disk();
  object["checkpoint_bytes"] = disk.bytes;
  object["checkpoints"] = disk.most;
  object["disk_bytes"] = disk.total();
  if (plan.options.memory_bytes) object["gpu_memory_bytes"] = *plan.options.memory_bytes;
  if (plan.time) {
    object.update({{"mfu", plan.options.mfu},
                   {"peak_tflops", plan.options.peak->tflops},
                   {std::string(plan.step.unit.plural) + "_per_s", plan.time->items_per_s},
                   {"step_seconds", plan.time->step_seconds}});
    if (!plan.options.peak->name.empty()) {
      object["peak_gpu"] = plan.options.peak->name;
      object["arithmetic"] = plan.options.peak->arithmetic;
    }
    if (plan.time->seconds) object["days"] = *plan.time->seconds / 86400;
    if (plan.time->evaluation_seconds) object["evaluation_days"] = *plan.time->evaluation_seconds / 86400;
  }
  out << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_table(std::ostream& out, const TrainingPlan& plan) {
  write_model(out, plan);
  if (!plan.memory.empty()) {
    write_memory(out, plan);
    write_verdict(out, plan);
  }
  write_disk(out, plan);
  write_time(out, plan);
  write_notes(out, plan);
}

}  // namespace moh
