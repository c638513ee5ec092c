#include "train/apps/python/translation.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/apps/python/interruption.h"
#include "train/families/translation/decode/translate_text.h"

namespace moh::python {

namespace nb = nanobind;

namespace {

std::vector<std::string> translate(OpenModel& model, const std::vector<std::string>& lines,
                                   std::int64_t beams, double length_penalty, std::int64_t max_length) {
  TranslateTextOptions options;
  options.search.beam.beams = beams;
  options.search.beam.length_penalty = length_penalty;
  options.search.max_length = max_length;
  std::vector<std::string> texts;
  const auto take = [&](std::span<const TranslatedText> best) {
    texts.push_back(best.empty() ? "" : best.front().text);
  };
  Interruption interruption;
  const auto go_on = [&](std::int64_t) {
    if (interruption.requested()) interruption.rethrow();
  };
  return model.compute([&] {
    translate_text(model.translation("translate"), lines, "translate: line", options, take, go_on);
    return texts;
  });
}

}  // namespace

void add_translation(nb::class_<OpenModel>& model) {
  model.def("translate", &translate);
}

}  // namespace moh::python
