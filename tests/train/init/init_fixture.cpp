#include "tests/train/init/init_fixture.h"

#include <catch2/catch.hpp>

namespace moh::test {

RunConfig tiny_run() {
  RunConfig run;
  run.seed = 5;
  run.model.layers = 2;
  run.model.hidden = 16;
  run.model.intermediate = 24;
  run.model.heads = 6;
  run.model.head_dim = 8;
  run.model.max_positions = 24;
  run.model.init_std = 0.2;
  run.data.sequence_length = 24;
  run.train.batch_size = 3;
  run.init.moh.calibration.batches = 3;
  return run;
}

LanguageData tiny_data() {
  LanguageData data;
  data.tokenizer = make_tokenizer("byte");
  std::vector<TokenId> ids;
  for (int i = 0; i < 2000; ++i) ids.push_back(static_cast<TokenId>((i * i / 7 + i % 13) % 256));
  data.train = tokens_in_memory(ids, 256);
  return data;
}

std::unique_ptr<Llama> tiny_model(const RunConfig& run) {
  auto model = std::make_unique<Llama>(llama_config_of(run.model), DType::kFloat32);
  model->initialise(static_cast<std::uint64_t>(run.seed));
  return model;
}

Tensor parameter(const Llama& model, std::string_view name) {
  for (const NamedParameter& p : model.parameters()) {
    if (p.name == name) return p.variable.value();
  }
  FAIL("no parameter " << name);
  return {};
}

}  // namespace moh::test
