#include "train/weights/checkpoint/train_state.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/base/io/error_words.h"
#include "train/base/io/json_fault.h"
#include "train/base/io/printable.h"
#include "train/weights/checkpoint/stored_checkpoint.h"

namespace moh {

namespace {

constexpr int kVersion = 1;
constexpr const char *kModelOnly = "model_only", *kIdentity = "task";

using OrderedJson = nlohmann::ordered_json;

/// Limits the nesting, as the JSON library's functions are recursive and deep nesting would overflow the
/// stack.
OrderedJson parse(std::string_view text) {
  constexpr int kMaxDepth = 4;
  return OrderedJson::parse(text, [](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    if (depth > kMaxDepth)
      throw std::runtime_error("expected at most " + std::to_string(kMaxDepth) + " levels, found more");
    return true;
  });
}

std::int64_t count_at(const OrderedJson& json, const char* key) {
  const OrderedJson& value = json.at(key);
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // leaves room for additions
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMost) {
    throw std::runtime_error(std::string(key) + ": expected a count, found " + printable(value.dump(), 200));
  }
  return value.get<std::int64_t>();
}

std::vector<std::pair<std::string, std::string>> texts_at(const OrderedJson& json, const char* key) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : json.at(key).items()) texts.emplace_back(name, value.get<std::string>());
  return texts;
}

TrainState read(const OrderedJson& json) {
  const std::int64_t version = count_at(json, "version");
  if (version != kVersion) {
    throw std::runtime_error("version: expected " + std::to_string(kVersion) + ", found " +
                             std::to_string(version) + "; use the version of moh that wrote it");
  }
  TrainState state;
  state.step = count_at(json, "step");
  state.samples = count_at(json, "samples");
  state.items = count_at(json, "items");
  state.optimizer_steps = count_at(json, "optimizer_steps");
  state.skipped_in_row = count_at(json, "skipped_in_row");
  state.elapsed_seconds = json.at("elapsed_seconds").get<double>();
  const OrderedJson& best = json.at("best_score");
  if (!best.is_null()) state.best_score = best.get<double>();
  state.evaluation_due = json.at("evaluation_due").get<bool>();
  state.average_warmup = json.at("average_warmup").get<bool>();
  json.at("recent_losses").get_to(state.recent_losses);
  json.at("recent_grad_norms").get_to(state.recent_grad_norms);
  json.at("selections").get_to(state.selections);
  state.seed = json.at("seed").get<std::int64_t>();
  state.identity = texts_at(json, kIdentity);
  state.data = texts_at(json, "data");
  return state;
}

/// The object of trainer.json in a checkpoint that holds a model only; null for other texts.
OrderedJson model_only_object(std::string_view text) {
  try {
    OrderedJson json = parse(text);
    const auto found = json.find(kModelOnly);
    return found != json.end() && *found == true ? json : OrderedJson();
  } catch (const std::exception&) {
    return {};  // whoever reads it as the state of a run says what is wrong
  }
}

std::string name_of(const StoredCheckpoint& checkpoint) {
  return "checkpoint " + checkpoint_folder_name(checkpoint.step());
}

OrderedJson object_of(const std::vector<std::pair<std::string, std::string>>& texts) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, value] : texts) object[name] = value;
  return object;
}

}  // namespace

std::string to_json(const TrainState& state) {
  const OrderedJson json = {
      {"version", kVersion},
      {"step", state.step},
      {"samples", state.samples},
      {"items", state.items},
      {"optimizer_steps", state.optimizer_steps},
      {"skipped_in_row", state.skipped_in_row},
      {"elapsed_seconds", state.elapsed_seconds},
      {"best_score", state.best_score ? OrderedJson(*state.best_score) : OrderedJson(nullptr)},
      {"recent_losses", state.recent_losses},
      {"recent_grad_norms", state.recent_grad_norms},
      {"selections", state.selections},
      {"average_warmup", state.average_warmup},
      {"evaluation_due", state.evaluation_due},
      {"seed", state.seed},
      {kIdentity, object_of(state.identity)},
      {"data", object_of(state.data)}};
  return json.dump(2) + "\n";
}

TrainState train_state_from_json(std::string_view text, std::string_view where) {
  try {
    return read(parse(text));
  } catch (const nlohmann::json::parse_error&) {
    const JsonFault fault = find_json_fault(text);
    throw CheckpointError(
        error_message(where, "trainer.json", "JSON in UTF-8", fault.words(/*one_line=*/false)));
  } catch (const std::exception& error) {  // of the JSON library, or of read()
    throw CheckpointError(std::string(where) + ": trainer.json: " + error_words(error));
  }
}

TrainState train_state_of(const StoredCheckpoint& checkpoint) {
  return train_state_from_json(checkpoint.trainer_json(), name_of(checkpoint));
}

std::string model_only_json(const TrainedIdentity& identity) {
  OrderedJson json = OrderedJson::object();
  json[kModelOnly] = true;
  if (!identity.empty()) json[kIdentity] = object_of(identity);
  return json.dump(2) + "\n";
}

bool is_model_only(const StoredCheckpoint& checkpoint) {
  return !model_only_object(checkpoint.trainer_json()).is_null();
}

TrainedIdentity trained_identity(const StoredCheckpoint& checkpoint) {
  const OrderedJson json = model_only_object(checkpoint.trainer_json());
  if (json.is_null()) return train_state_of(checkpoint).identity;
  if (!json.contains(kIdentity)) return {};
  try {
    return texts_at(json, kIdentity);
  } catch (const std::exception& error) {  // of the JSON library
    throw CheckpointError(name_of(checkpoint) + ": trainer.json: " + error.what());
  }
}

}  // namespace moh
