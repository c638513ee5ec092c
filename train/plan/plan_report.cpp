#include <nlohmann/json.hpp>
#include <ostream>

#include "core/parallel.h"
#include "train/metrics/format.h"
#include "train/metrics/table_line.h"
#include "train/plan/training_plan.h"
#include "train/tasks/llama_from_config.h"

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
             std::string(dtype_name(dtype_of_precision(config.precision))).c_str());
  const StepFlops& flops = plan.flops_per_token;
  write_line(out, "FLOP per token", "%.4g to train on, %.4g forward", flops.routed, flops.routed / 3);
  if (config.model.moh.router != RouterChoice::kNone) {
    write_line(out, "  all heads on", "%.4g and %.4g; here %.1f%% of the heads, %.3f of the operations",
               flops.dense, flops.dense / 3, 100 * plan.activated_heads, flops.routed / flops.dense);
  }
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  write_line(out, "step", "%lld %s x %lld x %lld sequences of %lld tokens = %s tokens",
             number(plan.options.gpus), device_word(plan), number(config.train.accumulate),
             number(config.train.batch_size), number(config.data.sequence_length),
             count_text(plan.tokens_per_step()).c_str());
  write_line(out, "run", "%lld steps, %s tokens", number(config.train.steps),
             count_text(plan.tokens_per_step() * config.train.steps).c_str());
}

void write_memory(std::ostream& out, const TrainingPlan& plan) {
  const auto row = [&](const std::string& name, const std::string& without, const std::string& with) {
    write_line(out, name.c_str(), "%16s%16s", without.c_str(), with.c_str());
  };
  const auto title = [&](const MemoryChoice& choice) {
    return std::string(name_of(choice.recompute)) + (&choice == &plan.configured() ? " *" : "");
  };
  const auto& [without, with] = plan.memory;
  out << "\nmemory of each " << device_word(plan) << ", when it is largest (* as configured)\n";
  row("  model.recompute", title(without), title(with));
  for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
    const std::string name(memory_purpose_name(static_cast<MemoryPurpose>(i)));
    row("  " + name, format_bytes(without.memory.at_peak[i]), format_bytes(with.memory.at_peak[i]));
  }
  row("  in all", format_bytes(without.memory.stats.total.peak_bytes),
      format_bytes(with.memory.stats.total.peak_bytes));
  row("  evaluation, in all", format_bytes(without.memory.evaluation_bytes),
      format_bytes(with.memory.evaluation_bytes));
  if (!plan.options.memory_bytes) return;
  const auto verdict = [&](const MemoryChoice& choice) {
    return std::string(plan.fits(choice) ? "yes" : "no");
  };
  const auto batch = [](const MemoryChoice& choice) {
    return choice.largest_batch == 0 ? std::string("none") : std::to_string(choice.largest_batch);
  };
  row("  fits", verdict(without), verdict(with));
  row("  largest batch_size", batch(without), batch(with));
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
      out << "; would with model.recompute: " << name_of(choice.recompute)
          << ", train.batch_size: " << choice.largest_batch;
    }
  }
  out << '\n';
  if (plan.memory[1].largest_batch > 0) return;
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
  write_line(out, "  tokens/s", "%s", format_count(plan.time->tokens_per_s).c_str());
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
                 {"dtype", dtype_name(dtype_of_precision(run.precision))},
                 {"threads", num_threads()},
                 {"gpus", plan.options.gpus},
                 {"parameters", plan.parameters},
                 {"activated_heads", plan.activated_heads},
                 {"flops_per_token", plan.flops_per_token.routed},
                 {"flops_per_token_dense", plan.flops_per_token.dense},
                 {"batch_size", run.train.batch_size},
                 {"accumulate", run.train.accumulate},
                 {"sequence_length", run.data.sequence_length},
                 {"steps", run.train.steps},
                 {"tokens_per_step", plan.tokens_per_step()}};
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
                   {"tokens_per_s", plan.time->tokens_per_s},
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
