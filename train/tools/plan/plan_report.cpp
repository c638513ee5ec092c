#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/parallel.h"
#include "train/config/enum_names.h"
#include "train/log/format.h"
#include "train/tools/plan/training_plan.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// What a user calls a device of this run: "GPU" or "CPU".
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
                 {"evaluation_bytes", memory.evaluation_bytes}};
  if (plan.options.memory_bytes) {
    object["fits"] = plan.fits(choice);
    object["largest_batch_size"] = choice.largest_batch;
  }
  return object;
}

// ---- the table ----

void write_model(std::ostream& out, const TrainingPlan& plan) {
  const RunConfig& config = plan.config;
  write_line(out, "parameters", "%s, %s", count_text(plan.parameters).c_str(),
             std::string(dtype_name(dtype_of(config.precision))).c_str());
  const StepFlops& flops = plan.flops_per_item;
  const std::string items(plan.unit.plural), per_item = "FLOP per " + std::string(plan.unit.singular);
  write_line(out, per_item.c_str(), "%.4g to train on, %.4g forward", flops.routed, flops.routed / 3);
  if (plan.is_routed) {
    write_line(out, "  all heads on", "%.4g and %.4g; here %.1f%% of the heads, %.3f of the operations",
               flops.dense, flops.dense / 3, 100 * plan.activated_heads, flops.routed / flops.dense);
  }
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  write_line(out, "step", "%lld %s x %lld x %lld samples of %lld %s = %s %s", number(plan.options.gpus),
             device_word(plan), number(config.train.accumulate), number(config.train.batch_size),
             number(plan.items_per_sample), items.c_str(), count_text(plan.items_per_step()).c_str(),
             items.c_str());
  write_line(out, "run", "%lld steps, %s %s", number(config.train.steps),
             count_text(plan.items_per_step() * config.train.steps).c_str(), items.c_str());
}

void write_memory(std::ostream& out, const TrainingPlan& plan) {
  /// A column for each choice.
  const auto row = [&](const std::string& name, const auto& cell) {
    std::string cells;
    for (const MemoryChoice& choice : plan.memory) {
      const std::string text = cell(choice);
      cells.append(std::max<std::size_t>(16, text.size()) - text.size(), ' ').append(text);
    }
    write_line(out, name.c_str(), "%s", cells.c_str());
  };
  const auto title = [&](const MemoryChoice& choice) {
    return std::string(name_of(choice.recompute)) + (&choice == &plan.configured() ? " *" : "");
  };
  out << "\nmemory of each " << device_word(plan) << ", when it is largest (* as configured)\n";
  if (plan.memory.size() > 1) row("  model.recompute", title);
  for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
    const std::string name(memory_purpose_name(static_cast<MemoryPurpose>(i)));
    row("  " + name, [i](const MemoryChoice& choice) { return format_bytes(choice.memory.at_peak[i]); });
  }
  row("  in all",
      [](const MemoryChoice& choice) { return format_bytes(choice.memory.stats.total.peak_bytes); });
  row("  evaluation, in all",
      [](const MemoryChoice& choice) { return format_bytes(choice.memory.evaluation_bytes); });
  if (!plan.options.memory_bytes) return;
  const auto verdict = [&](const MemoryChoice& choice) {
    return std::string(plan.fits(choice) ? "yes" : "no");
  };
  const auto batch = [](const MemoryChoice& choice) {
    return choice.largest_batch == 0 ? std::string("none") : std::to_string(choice.largest_batch);
  };
  row("  fits", verdict);
  row("  largest batch_size", batch);
}

void write_verdict(std::ostream& out, const TrainingPlan& plan) {
  if (!plan.options.memory_bytes) return;
  const std::string room = format_bytes(*plan.options.memory_bytes);
  if (plan.fits(plan.configured())) {
    out << "fits in " << room << " as configured";
  } else {
    out << "does not fit in " << room << " as configured";
    for (const MemoryChoice& choice : plan.memory) {
      if (choice.largest_batch == 0) continue;
      out << "; would with "
          << (plan.memory.size() > 1 ? "model.recompute: " + std::string(name_of(choice.recompute)) + ", "
                                     : "")
          << "train.batch_size: " << choice.largest_batch;
    }
  }
  out << '\n';
  if (plan.memory.back().largest_batch > 0) return;
  out << "the least that it takes (model.recompute: layer, train.batch_size: 1):";
  for (const LeastMemory& least : plan.least) {
    out << ' ' << name_of(least.precision) << ' ' << format_bytes(least.bytes)
        << (&least == &plan.least.front() ? "," : "\n");
  }
}

void write_time(std::ostream& out, const TrainingPlan& plan) {
  if (!plan.time) {
    out << "\nno time without --peak-tflops\n";
    return;
  }
  const PeakRate& peak = *plan.options.peak;
  const std::string whose = peak.name.empty() ? "" : " (" + peak.name + ", published)";
  out << "\nat " << 100 * plan.options.mfu << "% of " << peak.tflops << " TFLOP/s" << whose << " on each "
      << device_word(plan) << '\n';
  write_line(out, ("  " + std::string(plan.unit.plural) + "/s").c_str(), "%s",
             format_count(plan.time->items_per_s).c_str());
  write_line(out, "  step", "%.3g s", plan.time->step_seconds);
  write_line(out, "  run", "%.3g days", plan.time->seconds / 86400);
}

void write_notes(std::ostream& out, const TrainingPlan& plan) {
  if (plan.options.gpus == 1) return;
  out << "\nThis version trains on one device. " << plan.options.gpus
      << " are reckoned as data parallelism: each holds the whole model with its gradients\n"
         "and its optimiser's state (nothing is sharded, so more of them do not make it fit), and time for\n"
         "exchanging gradients is part of the MFU.\n";
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
                 {"parameters", plan.parameters},
                 {"activated_heads", plan.activated_heads},
                 {"flops_per_" + std::string(plan.unit.singular), plan.flops_per_item.routed},
                 {"flops_per_" + std::string(plan.unit.singular) + "_dense", plan.flops_per_item.dense},
                 {"batch_size", run.train.batch_size},
                 {"accumulate", run.train.accumulate},
                 {"steps", run.train.steps},
                 {std::string(plan.unit.plural) + "_per_step", plan.items_per_step()}};
  for (const auto& [name, size] : plan.sample_sizes) object[name] = size;
  for (const MemoryChoice& choice : plan.memory) {
    object["recompute"][std::string(name_of(choice.recompute))] = memory_json(plan, choice);
  }
  for (const LeastMemory& least : plan.least) {
    object["least_bytes"][std::string(name_of(least.precision))] = least.bytes;
  }
  if (plan.options.memory_bytes) object["gpu_memory_bytes"] = *plan.options.memory_bytes;
  if (plan.time) {
    object.update({{"mfu", plan.options.mfu},
                   {"peak_tflops", plan.options.peak->tflops},
                   {std::string(plan.unit.plural) + "_per_s", plan.time->items_per_s},
                   {"step_seconds", plan.time->step_seconds},
                   {"days", plan.time->seconds / 86400}});
  }
  out << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_table(std::ostream& out, const TrainingPlan& plan) {
  write_model(out, plan);
  write_memory(out, plan);
  write_verdict(out, plan);
  write_time(out, plan);
  write_notes(out, plan);
}

}  // namespace moh
