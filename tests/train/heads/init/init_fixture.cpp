#include "tests/train/heads/init/init_fixture.h"

#include <catch2/catch.hpp>

namespace moh::test {

RunConfig tiny_run() {
  RunConfig run;
  run.seed = 5;
  run.train.batch_size = 3;
  run.init.moh.calibration.batches = 3;
  LanguageRun language;
  language.model = {.layers = 2,
                    .hidden = 16,
                    .intermediate = 24,
                    .heads = 6,
                    .head_dim = 8,
                    .max_positions = 24,
                    .init_std = 0.2};
  language.data.sequence_length = 24;
  run.task = language.task();
  run.family = FamilyValue(language);
  return run;
}

LanguageCalibration tiny_calibration(const RunConfig& run) {
  std::vector<TokenId> ids;
  for (int i = 0; i < 2000; ++i) ids.push_back(static_cast<TokenId>((i * i / 7 + i % 13) % 256));
  return {{{.tokens = tokens_in_memory(ids, 256)}}, ByteTokenizer(), run};
}

std::unique_ptr<Llama> tiny_model(const RunConfig& run) {
  auto model = std::make_unique<Llama>(language_run(run).model, DType::kFloat32);
  model->initialise(run.random_seed());
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
