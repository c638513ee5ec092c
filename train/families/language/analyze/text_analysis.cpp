#include "train/families/language/analyze/text_analysis.h"

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/families/language/analyze/analysis_sequences.h"
#include "train/families/language/analyze/token_table.h"
#include "train/families/language/data/document_marks.h"
#include "train/families/language/language_data.h"
#include "train/families/language/language_run.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

void check_options(const Llama& model, const AnalyzeOptions& options) {
  if (options.sequence_length > model.config().max_positions) {
    throw ValueError(error_message("analyze", "sequence length",
                                   "at most " + std::to_string(model.config().max_positions) + " positions",
                                   std::to_string(options.sequence_length)));
  }
}

AnalyzedModel sizes_of(const LlamaConfig& c) {
  return {.layers = c.layers,
          .hidden = c.hidden,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .vocab_size = c.vocab_size};
}

void add_text(AnalysisInputs& inputs, const Llama& model, const Tokenizer& tokenizer,
              const std::string& text) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, ids);
  const auto length = static_cast<std::int64_t>(ids.size());
  if (length == 0) return;
  if (length > model.config().max_positions) {
    throw ValueError(error_message("analyze", "text",
                                   "at most " + std::to_string(model.config().max_positions) + " tokens",
                                   std::to_string(length)));
  }
  inputs.text = tensor_of<TokenId>({1, length}, ids);
  for (const TokenId id : ids) inputs.text_tokens.push_back({{.id = id, .text = shown_text(tokenizer, id)}});
}

/// Where the documents of sequences [B, T] begin.
Tensor document_starts(const DocumentMarks& marks, const Tensor& tokens) {
  const std::int64_t length = tokens.dim(1);
  Tensor starts = empty(tokens.shape(), DType::kInt32);
  for (std::int64_t b = 0; b < tokens.dim(0); ++b) {
    const Tensor row = tokens.select(b).to(DType::kInt32);
    marks.write_starts(row.span<std::int32_t>(), starts.data<std::int32_t>() + b * length);
  }
  return starts;
}

}  // namespace

AnalysisInputs analysis_of_texts(const Llama& model, const Tokenizer& tokenizer,
                                 const std::vector<TextSource>& sources, const AnalyzeOptions& options,
                                 const AnalyzedDocuments& documents) {
  check_options(model, options);
  AnalysisInputs inputs{
      .options = options, .model = sizes_of(model.config()), .tokenizer = std::string(tokenizer.name())};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(inputs.model.vocab_size));
  const auto share = static_cast<std::int64_t>(sources.size());
  AnalyzeOptions of_source = options;
  of_source.similarity_tokens = (options.similarity_tokens + share - 1) / share;
  std::vector<AnalysisSequences> opened;  // one source after the other
  for (const TextSource& source : sources) {
    const AnalysisSequences& sequences =
        opened.emplace_back(source.tokens, of_source, static_cast<std::int32_t>(opened.size()));
    count_tokens(sequences, counts);
    inputs.sources.push_back({source.name, sequences.num_tokens(), source.tokens->size()});
    inputs.similarity_tokens += sequences.num_similarity_tokens();
    inputs.num_passes += sequences.size();
  }
  inputs.token_table = token_table(tokenizer, options, counts);
  add_text(inputs, model, tokenizer, options.text);
  inputs.pass = [opened](std::int64_t index) {
    std::size_t source = 0;
    for (; index >= opened.at(source).size(); ++source) index -= opened[source].size();
    return opened[source].at(index);
  };
  inputs.forward = [&model, documents, marks = DocumentMarks(tokenizer)](const Tensor& tokens,
                                                                         ForwardContext context) {
    if (documents.mask) context.document_starts = document_starts(marks, tokens).to(model.device());
    context.reset_positions = documents.reset_positions;
    model.forward(tokens, context);
  };
  return inputs;
}

AnalysisInputs analysis_of_files(const RunConfig& run, const Llama& model,
                                 std::span<const AnalyzedFiles> files, AnalyzeOptions options) {
  const LanguageRun& language = language_run(run);
  if (options.sequence_length == 0) options.sequence_length = language.data.sequence_length;
  if (options.batch_size == 0) options.batch_size = run.train.batch_size;
  const std::unique_ptr<const Tokenizer> tokenizer = tokenizer_of(language);
  std::vector<TextSource> sources;
  std::vector<std::pair<std::string, std::string>> contents;
  for (const AnalyzedFiles& each : files) {
    contents.emplace_back(each.name, "");
    sources.push_back(
        {each.name, open_text(each.paths, *tokenizer, language.data.text, &contents.back().second)});
  }
  if (sources.empty()) sources = open_held_out_text(run, *tokenizer, contents);
  for (TextSource& source : sources) {
    if (source.name.empty()) source.name = "validation";
  }
  const AnalyzedDocuments documents{language.data.document_mask, language.data.reset_positions};
  require_document_marks(language.data, *tokenizer);
  AnalysisInputs inputs = analysis_of_texts(model, *tokenizer, sources, options, documents);
  inputs.contents = std::move(contents);
  inputs.contents.emplace_back("data.tokenizer", describe(*tokenizer));
  return inputs;
}

}  // namespace moh
