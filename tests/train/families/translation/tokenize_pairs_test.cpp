#include "train/families/translation/data/tokenize_pairs.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/parallel.h"
#include "tests/support/language_runs.h"
#include "tests/support/temporary_folder.h"
#include "train/families/translation/data/pair_batches.h"
#include "train/families/translation/translation_data.h"
#include "train/families/translation/translation_family.h"

using namespace moh;

namespace {

struct Read {
  std::vector<std::pair<std::string, std::string>> kept;
  DroppedPairs dropped;
};

Read tokenized(const std::string& text, const PairFilter& filter) {
  const TemporaryFolder folder;
  ParallelReader reader({{write_file(folder / "pairs.tsv", text), {}}}, {});
  Read read;
  const auto bytes = std::make_shared<ByteTokenizer>();
  tokenize_pairs(reader, {bytes, bytes}, filter, read.dropped, [&](const TokenisedPair& pair) {
    CHECK(pair.source.size() == pair.text.source.size());
    CHECK(pair.target.size() == pair.text.target.size());
    read.kept.emplace_back(pair.text.source, pair.text.target);
  });
  return read;
}

/// A run of all of a file's pairs, with bytes as tokens.
RunConfig run_of(const std::filesystem::path& train, double validation_fraction) {
  RunConfig run = default_run(translation_family().defaults());
  TranslationRun& own = dynamic_cast<TranslationRun&>(*run.family);
  own.model.vocab_size = 256;
  own.data.train = {train};
  own.data.validation_fraction = validation_fraction;
  return run;
}

std::string numbered_pairs(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "source " + std::to_string(i / 2) + "\ttarget " + std::to_string(i) + "\n";
  return text;
}

}  // namespace

TEST_CASE("translation data: pairs that are too long, or of unequal lengths, are counted by name") {
  const std::string text = "abc\tdefg\nabcdefgh\tx y\nlong long long\tlang lang lang\nab\tabcdef\n";
  const Read all = tokenized(text, {.max_length = 100});
  CHECK(all.kept.size() == 4);
  CHECK(all.dropped.count() == 0);
  // A sentence of 9 bytes has 10 tokens with its end.
  const Read read = tokenized(text, {.max_length = 10, .max_ratio = 2.5});
  CHECK(read.kept == std::vector<std::pair<std::string, std::string>>{{"abc", "defg"}});
  CHECK(read.dropped.describe() == "2 length ratio above 2.5, 1 longer than 10 tokens");
  CHECK(tokenized("abcdefghi\tabcdefgh\n", {.max_length = 10}).kept.size() == 1);
  CHECK(tokenized("abcdefghij\tabcdefgh\n", {.max_length = 10}).kept.empty());
}

TEST_CASE("translation data: more pairs than are encoded at a time keep their order, with any threads") {
  const std::string text = numbered_pairs(9000);
  for (const int threads : {1, 3}) {
    const int before = num_threads();
    set_num_threads(threads);
    const Read read = tokenized(text, {.max_length = 100});
    set_num_threads(before);
    REQUIRE(read.kept.size() == 9000);
    for (std::size_t i : {std::size_t{0}, std::size_t{4096}, std::size_t{8999}})
      CHECK(read.kept[i].second == "target " + std::to_string(i));
  }
}

TEST_CASE("translation data: a part is held out by the source sentence, whatever lies beside it") {
  const TemporaryFolder folder;
  const std::string all = numbered_pairs(2000);
  const auto data =
      open_translation_data(run_of(write_file(folder / "all.tsv", all), 0.1), DataUse::kTraining);
  REQUIRE(data->validation != nullptr);
  CHECK(data->train->size() + data->validation->size() == 2000);
  CHECK(data->validation->size() == Approx(200).margin(60));
  CHECK(data->validation->size() % 2 == 0);  // both translations of a sentence
  const auto evaluated = open_translation_data(run_of(folder / "all.tsv", 0.1), DataUse::kEvaluation);
  CHECK(evaluated->train == nullptr);
  CHECK(evaluated->validation->describe_contents() == data->validation->describe_contents());
  const std::vector<TextPair> text = held_out_text(run_of(folder / "all.tsv", 0.1));
  REQUIRE(std::ssize(text) == evaluated->validation->size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::vector<TokenId> source, target;
    evaluated->validation->copy(static_cast<std::int64_t>(i), source, target);
    CHECK(text[i].source == std::string(source.begin(), source.end()));
    CHECK(text[i].target == std::string(target.begin(), target.end()));
  }
  const auto whole = open_translation_data(run_of(folder / "all.tsv", 0), DataUse::kTraining);
  CHECK(whole->validation == nullptr);
  CHECK(whole->train->size() == 2000);
}

TEST_CASE("translation data: what cannot be used is refused at its key") {
  const TemporaryFolder folder;
  const std::string pairs = write_file(folder / "pairs.tsv", "one\teins\ntwo\tzwei\n");
  CHECK_THROWS_WITH(open_translation_data(run_of(pairs, 0), DataUse::kEvaluation),
                    "data: this run held nothing out; name sentence pairs with data=PATH");
  CHECK_THROWS_WITH(held_out_text(run_of(pairs, 0)),
                    "data: this run held nothing out; name sentence pairs with data=PATH");
  RunConfig run = run_of(pairs, 0);
  TranslationRun& own = dynamic_cast<TranslationRun&>(*run.family);
  own.data.max_length = 2;
  CHECK_THROWS_WITH(
      open_translation_data(run, DataUse::kTraining),
      "data.train: sentence pairs to train on: expected at least 1, found none after those that "
      "were left out");
  own.data.max_length = 100;
  own.model.vocab_size = 200;
  CHECK_THROWS_AS(open_translation_data(run, DataUse::kTraining), ConfigError);
  own.model.vocab_size = 256;
  own.data.train = {folder / "missing.tsv"};
  CHECK_THROWS_AS(open_translation_data(run, DataUse::kTraining), DataError);
}

TEST_CASE("translation data: synthetic pairs fill token batches") {
  RunConfig run = run_of("unused", 0);
  for (const std::int64_t tokens : {1, 31, 256, 1000}) {
    dynamic_cast<TranslationRun&>(*run.family).data.batch_tokens = tokens;
    const auto data = open_translation_data(run, DataUse::kSynthetic);
    const TrainingPairs training(data->train, tokens, 1);
    CHECK(training.batches_per_epoch() == 4);
    const PairBatch batch = make_pair_batch(*data->train, training.at(2, 1), data->marks);
    CHECK(batch.num_targets <= tokens);
    CHECK(static_cast<double>(batch.num_targets) > 0.96 * static_cast<double>(tokens));
    CHECK(batch.pairs.source.numel() == batch.num_targets);
  }
}
