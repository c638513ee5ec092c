#include "train/apps/python/language.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "models/llm/llama.h"
#include "train/apps/python/arrays.h"
#include "train/apps/python/interruption.h"
#include "train/apps/python/routing.h"
#include "train/families/language/generate_text.h"

namespace moh::python {

namespace nb = nanobind;

namespace {

nb::object token_logits(OpenModel& model, nb::handle given) {
  const Tensor ids = ids_of("logits: ids", given);
  const Tensor result = model.compute(
      [&] { return model.llama("logits").forward(ids).logits.value().to(kCpu).to(DType::kFloat32); });
  return array_of(result);
}

nb::object token_routing(OpenModel& model, nb::handle given) {
  const Tensor ids = ids_of("routing: ids", given);
  return routing_of(model,
                    [&](const ForwardContext& context) { model.llama("routing").forward(ids, context); });
}

nb::object token_layer_input(OpenModel& model, nb::handle given, std::int64_t layer) {
  const Tensor ids = ids_of("features: ids", given);
  const auto forward = [&](const ForwardContext& context) { model.llama("features").forward(ids, context); };
  return array_of(layer_input_of(model, forward, layer));
}

std::vector<TokenId> prompt_of(const Llama& model, const Tensor& ids) {
  if (ids.dim(0) != 1)
    throw ValueError(error_message("generate: ids", "", "one sequence", std::to_string(ids.dim(0))));
  const std::int64_t vocabulary = model.config().vocab_size;
  std::vector<TokenId> prompt;
  for (const std::int64_t id : ids.to(DType::kInt64).span<std::int64_t>()) {
    if (id < 0 || id >= vocabulary)
      throw ValueError(
          error_message("generate: ids", "", "0 to " + std::to_string(vocabulary - 1), std::to_string(id)));
    prompt.push_back(static_cast<TokenId>(id));
  }
  return prompt;
}

std::string text_of(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  Utf8Stream stream;
  std::string text;
  for (const TokenId id : ids) text += stream.push(tokenizer.token_bytes(id));
  return text + stream.finish();
}

/// The prompt as `moh generate` shows it.
std::string shown(std::string_view prompt) {
  Utf8Stream safe;
  std::string text = safe.push(prompt);
  return text + safe.finish();
}

GenerateOptions options_of(std::int64_t tokens, double temperature, std::int64_t top_k, double top_p,
                           std::uint64_t seed, std::vector<std::string> stop) {
  return {.tokens = tokens, .pick = {temperature, top_k, top_p}, .seed = seed, .stop = std::move(stop)};
}

/// (prompt, new text) of a text or of ids. `sink`, if there is one, gets the new text in pieces.
std::pair<std::string, std::string> continuation(OpenModel& model, const std::string* text, const Tensor& ids,
                                                 GenerateOptions options, nb::handle sink) {
  Interruption interruption;
  std::string added;
  const auto take = [&](std::string_view piece) {
    added += piece;
    if (!sink.is_none() && !piece.empty()) interruption.call([&] { sink(piece); });
  };
  const auto stop = [&] { return interruption.requested(); };
  const std::string prompt = model.compute([&] {
    const LanguageModel& language = model.language("generate");
    options.ends = language.ends;
    if (text != nullptr) {
      generate_text(language.model, *language.tokenizer, *text, options, take, stop);
      return shown(*text);
    }
    const std::vector<TokenId> tokens = prompt_of(language.model, ids);
    generate_text(language.model, *language.tokenizer, tokens, options, take, stop);
    return text_of(*language.tokenizer, tokens);
  });
  interruption.rethrow();
  return {prompt, added};
}

nb::object generate(OpenModel& model, nb::handle prompt, std::int64_t tokens, double temperature,
                    std::int64_t top_k, double top_p, std::uint64_t seed,
                    const std::vector<std::string>& stop, nb::handle sink) {
  const GenerateOptions options = options_of(tokens, temperature, top_k, top_p, seed, stop);
  std::string text;
  const bool is_text = nb::try_cast(prompt, text, /*convert=*/false);
  const Tensor ids = is_text ? Tensor() : ids_of("generate: ids", prompt);
  const auto [shown_prompt, added] = continuation(model, is_text ? &text : nullptr, ids, options, sink);
  return nb::make_tuple(shown_prompt, added);
}

std::vector<TokenId> tokenize(OpenModel& model, const std::string& text) {
  return model.compute([&] {
    const Tokenizer& tokenizer = *model.language("tokenize").tokenizer;
    std::vector<TokenId> ids = tokenizer.sequence_start();
    tokenizer.encode(text, ids);
    return ids;
  });
}

std::string detokenize(OpenModel& model, nb::handle given) {
  const Tensor ids = ids_of("detokenize: ids", given);
  return model.compute([&] {
    const LanguageModel& language = model.language("detokenize");
    return text_of(*language.tokenizer, prompt_of(language.model, ids));
  });
}

}  // namespace

void add_language(nb::class_<OpenModel>& model) {
  const auto ids = nb::arg("ids").none();  // which a message of moh's refuses, too
  model.def("language_logits", &token_logits, ids)
      .def("language_routing", &token_routing, ids)
      .def("language_layer_input", &token_layer_input, ids, nb::arg("layer"))
      .def("generate", &generate, nb::arg("prompt").none(), nb::arg("max_tokens"), nb::arg("temperature"),
           nb::arg("top_k"), nb::arg("top_p"), nb::arg("seed"), nb::arg("stop"), nb::arg("on_text").none())
      .def("tokenize", &tokenize, nb::arg("text"))
      .def("detokenize", &detokenize, ids);
}

}  // namespace moh::python
