// translation_logits MODEL PAIRS.json [KEY=VALUE...]: prints the logits of a translation model on disk, in
// the order of the pairs and of their target tokens, as a JSON list with a list for each token. PAIRS.json
// has
// [[source ids, ids that the decoder reads], ...]; settings give what the files leave open.

#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "models/translation/translation_model.h"
#include "train/families/families.h"
#include "train/trainer/task/load_model.h"

using namespace moh;

namespace {

using Json = nlohmann::json;
using Sides = std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>>;

Json logits_of(const TranslationModel& model, const Sides& sides) {
  const NoGrad no_grad;
  std::vector<SentencePair> pairs;
  for (const auto& [source, target] : sides) pairs.push_back({source, target});
  const Tensor logits = model.forward(pack_pairs(pairs)).logits.value().select(0);
  Json rows = Json::array();
  for (std::int64_t t = 0; t < logits.dim(0); ++t) {
    const auto row = logits.select(t).span<float>();
    rows.push_back(std::vector<float>(row.begin(), row.end()));
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::cerr << "usage: translation_logits MODEL PAIRS.json [KEY=VALUE...]\n";
    return 2;
  }
  const std::vector<std::string> settings(argv + 3, argv + argc);
  const LoadedModel loaded = load_model(argv[1], families(), settings);
  const auto sides = Json::parse(std::ifstream(argv[2])).get<Sides>();
  std::cout << logits_of(dynamic_cast<const TranslationModel&>(*loaded.model), sides) << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
