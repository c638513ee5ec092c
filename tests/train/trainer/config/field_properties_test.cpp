#include "train/config/field_properties.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "train/config/write_fields.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/families/families.h"
#include "train/families/images/image_run.h"
#include "train/families/language/language_run.h"
#include "train/families/translation/translation_run.h"
#include "train/trainer/config/run_config.h"

namespace moh {
namespace {

using config::FieldProperty;
using config::KeyedField;
using config::Section;
/// Keys, of which one that ends in a dot stands for all keys of that section.
using Keys = std::vector<std::string_view>;

bool is_among(std::string_view key, const Keys& keys) {
  return std::ranges::any_of(
      keys, [&](std::string_view name) { return name.ends_with('.') ? key.starts_with(name) : key == name; });
}

Keys joined(Keys keys, const Keys& others) {
  keys.insert(keys.end(), others.begin(), others.end());
  return keys;
}

/// The fields of a run of this family that have the property are those of `keys`, all of which exist, without
/// those of `except`.
void check_keys(const FamilyConfig& family, FieldProperty property, const Keys& keys,
                const Keys& except = {}) {
  RunConfig run = default_run(family);
  const Section root = config::describe(run, {});
  const std::vector<KeyedField> fields = all_fields(root);
  std::vector<std::string> expected, found;
  for (const KeyedField& field : fields) {
    if (is_among(field.key, keys) && !is_among(field.key, except)) expected.push_back(field.key);
    if (field.has(property)) found.push_back(field.key);
  }
  INFO(family.task());
  CHECK(found == expected);
  for (const std::string_view key : joined(keys, except)) {
    INFO(key);
    CHECK(std::ranges::any_of(fields, [&](const KeyedField& field) { return is_among(field.key, {key}); }));
  }
}

ImageRun images(ImageArchitecture architecture) {
  ImageRun run;
  run.model.architecture = architecture;
  return run;
}

/// Keys of model.moh that concern the training of every model with routers.
const Keys& training_of_heads() {
  static const Keys keys = {"model.moh.balance_loss",      "model.moh.balance_scope",
                            "model.moh.balance_layers",    "model.moh.balance_weight",
                            "model.moh.router_init",       "model.moh.z_loss_weight",
                            "model.moh.top_k_anneal_until"};
  return keys;
}

}  // namespace

TEST_CASE("field properties: a field has those of its section unless it says otherwise") {
  std::int64_t value = 0;
  Section root("root", "");
  root.field("own", value, "").of_training();
  Section& outer = root.section_named("outer");
  outer.properties().harmless_on_resume().differs_freely();
  outer.field("denied", value, "").without(FieldProperty::kHarmlessOnResume);
  Section& inner = outer.section_named("inner");
  inner.properties().without(FieldProperty::kDiffersFreely);
  inner.field("kept", value, "");
  inner.field("given", value, "").differs_freely();
  root.section_named("outer").field("late", value, "");

  const auto with = [&](FieldProperty property) {
    std::string keys;
    for (const KeyedField& field : all_fields(root)) {
      if (field.has(property)) keys += field.key + " ";
    }
    return keys;
  };
  CHECK(with(FieldProperty::kOfTraining) == "root.own ");
  CHECK(with(FieldProperty::kHarmlessOnResume) ==
        "root.outer.late root.outer.inner.kept root.outer.inner.given ");
  CHECK(with(FieldProperty::kDiffersFreely) == "root.outer.denied root.outer.late root.outer.inner.given ");

  inner.properties_of("kept").ends_decay();
  CHECK(with(FieldProperty::kEndsDecay) == "root.outer.inner.kept ");
  CHECK_THROWS_AS(inner.properties_of("late"), InternalError);
}

TEST_CASE("field properties: a difference has those of its field") {
  std::int64_t one = 1, two = 2;
  const auto section = [](std::int64_t& value) {
    Section s("model", "");
    s.field("free", value, "").differs_freely();
    s.field("fixed", value, "");
    return s;
  };
  const Section first = section(one), second = section(two);
  const std::vector<config::Difference> all = differences(first, second);
  REQUIRE(all.size() == 2);
  CHECK(all[0].properties.has(FieldProperty::kDiffersFreely));
  const std::vector<config::Difference> some = differences(first, second, FieldProperty::kDiffersFreely);
  REQUIRE(some.size() == 1);
  CHECK(some[0].key == "model.fixed");
}

TEST_CASE("field properties: keys in which a run may differ from the checkpoint that it starts from") {
  const Keys every = {"model.preset", "model.recompute", "model.moh."};
  check_keys(LanguageRun(), FieldProperty::kDiffersFreely,
             joined(every, {"model.max_positions", "model.dropout", "model.init_std", "model.vocab_size",
                            "model.lora.full"}));
  check_keys(ImageRun(), FieldProperty::kDiffersFreely,
             joined(every, {"model.image_size", "model.drop_path"}));
  check_keys(DiffusionRun(), FieldProperty::kDiffersFreely, every);
  check_keys(TranslationRun(), FieldProperty::kDiffersFreely,
             joined(every, {"model.vocab_size", "model.source_vocab_size", "model.max_positions",
                            "model.dropout", "model.attention_dropout", "model.activation_dropout"}));
}

TEST_CASE("field properties: keys of the model that concern only its training") {
  check_keys(
      LanguageRun(), FieldProperty::kOfTraining,
      joined(training_of_heads(), {"model.dropout", "model.init_std", "model.recompute", "model.lora.full",
                                   "model.moh.straight_through", "model.moh.router_precision"}));
  check_keys(ImageRun(), FieldProperty::kOfTraining,
             joined(training_of_heads(), {"model.drop_path", "model.recompute"}));
  check_keys(DiffusionRun(), FieldProperty::kOfTraining, joined(training_of_heads(), {"model.recompute"}));
  check_keys(TranslationRun(), FieldProperty::kOfTraining,
             joined(training_of_heads(),
                    {"model.dropout", "model.attention_dropout", "model.activation_dropout",
                     "model.recompute", "model.moh.straight_through", "model.moh.router_precision"}));
}

TEST_CASE("field properties: keys that weights do not tell") {
  check_keys(LanguageRun(), FieldProperty::kUnseenInWeights,
             {"model.heads", "model.norm_eps", "model.rope_theta", "model.rope_scaling.kind",
              "model.moh.router", "data.tokenizer"});
  check_keys(ImageRun(), FieldProperty::kUnseenInWeights,
             {"model.image_size", "model.vit.heads", "model.vit.head_dim", "model.vit.norm_eps",
              "model.transnext.pool_ratios", "model.transnext.patch_size", "model.transnext.kept_keys",
              "model.transnext.fixed_pool_size", "model.moh.top_k", "model.moh.gate_scaling"});
  check_keys(
      DiffusionRun(), FieldProperty::kUnseenInWeights,
      {"model.image_size", "model.heads", "model.head_dim", "model.moh.top_k", "model.moh.gate_scaling"});
  check_keys(TranslationRun(), FieldProperty::kUnseenInWeights,
             {"model.heads", "model.norm", "model.positions", "model.sinusoids", "model.position_offset",
              "model.activation", "model.scale_embedding", "model.norm_eps", "model.moh.router",
              "model.moh.top_k", "model.moh.gate_scaling", "data.tokenizer", "data.decoder_start"});
}

TEST_CASE("field properties: keys that may be omitted for weights without a configuration") {
  const Keys every = {"model.preset", "model.recompute", "model.moh."};
  check_keys(LanguageRun(), FieldProperty::kOptionalWithWeights,
             joined(every, {"model.kv_heads", "model.head_dim", "model.max_positions", "model.sliding_window",
                            "model.tied_embeddings", "model.qkv_bias", "model.o_bias", "model.mlp_bias",
                            "model.qk_norm", "model.attention_gate", "model.dropout", "model.init_std",
                            "model.rope_scaling.", "model.switch_head.", "model.lora."}),
             {"model.rope_scaling.kind"});
  check_keys(images(ImageArchitecture::kTransNext), FieldProperty::kOptionalWithWeights,
             joined(every, {"model.drop_path", "model.attention_gate", "model.vit."}));
  check_keys(images(ImageArchitecture::kVit), FieldProperty::kOptionalWithWeights,
             joined(every, {"model.drop_path", "model.attention_gate", "model.transnext."}));
  check_keys(DiffusionRun(), FieldProperty::kOptionalWithWeights, joined(every, {"model.attention_gate"}));
  check_keys(TranslationRun(), FieldProperty::kOptionalWithWeights,
             joined(every, {"model.source_vocab_size", "model.kv_heads", "model.head_dim",
                            "model.max_positions", "model.shared_embeddings", "model.embedding_norm",
                            "model.attention_bias", "model.output_bias", "model.dropout",
                            "model.attention_dropout", "model.activation_dropout", "model.attention_gate"}));
}

TEST_CASE("field properties: keys that a resumed run may change") {
  const Keys every = {"threads",
                      "cuda_graph",
                      "output.",
                      "log.",
                      "eval.",
                      "checkpoint.",
                      "guard.",
                      "init.",
                      "comm.",
                      "profile.",
                      "ema.evaluate",
                      "train.stop_after_seconds",
                      "optim.fused_update"};
  const Keys of_steps = {"init.distill.", "comm.gradients"};
  const Keys ends_decay = {"train.steps",
                           "train.epochs",
                           "schedule.kind",
                           "schedule.decay_steps",
                           "schedule.cooldown_steps",
                           "schedule.decay_epochs",
                           "schedule.cooldown_epochs"};
  check_keys(LanguageRun(), FieldProperty::kHarmlessOnResume, joined(every, {"sample.", "data.cache"}),
             of_steps);
  check_keys(ImageRun(), FieldProperty::kHarmlessOnResume, every, of_steps);
  check_keys(DiffusionRun(), FieldProperty::kHarmlessOnResume, joined(every, {"sample."}), of_steps);
  check_keys(TranslationRun(), FieldProperty::kHarmlessOnResume, every, of_steps);
  for (const FamilyConfig* family : families().configs())
    check_keys(*family, FieldProperty::kEndsDecay, ends_decay);
}

}  // namespace moh
