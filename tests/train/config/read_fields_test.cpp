#include <catch2/catch.hpp>

#include "tests/train/trainer/config/config_folder.h"

namespace moh {
namespace {

struct FieldCase {
  std::string text;
  std::string message;  ///< without "a.yaml:"
};

void check_fields(const std::vector<FieldCase>& cases) {
  for (const FieldCase& c : cases) {
    INFO(c.text);
    CHECK(error_of(c.text) == "a.yaml:" + c.message);
  }
}

TEST_CASE("config fields: unknown keys name the nearest known one") {
  check_fields({
      {"optim:\n  lerning_rate: 1\n",
       "2:3: optim.lerning_rate: unknown key; did you mean optim.learning_rate?"},
      {"learning_rate: 1\n", "1:1: learning_rate: unknown key; did you mean optim.learning_rate?"},
      {"train: {warmup_steps: 5}\n",
       "1:9: train.warmup_steps: unknown key; did you mean schedule.warmup_steps?"},
      {"modle: {layers: 5}\n", "1:1: modle: unknown key; did you mean model?"},
      {"model: {mho: {shared: 1}}\n", "1:9: model.mho: unknown key; did you mean model.moh?"},
      {"optim: {lr: 1}\n", "1:9: optim.lr: unknown key; did you mean optim.learning_rate?"},
      {"optim: {xyz: 1}\n",
       "1:9: optim.xyz: unknown key; known keys of optim: name, learning_rate, betas, momentum, eps, "
       "weight_decay, "
       "clip_grad_norm, fused_update, groups"},
      {"Seed: 1\n", "1:1: Seed: unknown key; did you mean seed?"},
      {"trian: {steps: 5}\n", "1:1: trian: unknown key; did you mean train?"},
  });
}

TEST_CASE("config fields: a list of maps") {
  const std::string groups =
      "optim:\n  groups:\n    - match: \"*\"\n      freeze: true\n    - {match: [a, b.c], "
      "learning_rate_scale: 0.5, "
      "weight_decay: 0}\n";
  const RunConfig run = load_text(groups);
  const std::vector<ParameterGroup> expected = {
      {.match = {"*"}, .freeze = true},
      {.match = {"a", "b.c"}, .learning_rate_scale = 0.5, .weight_decay = 0.0}};
  CHECK(run.optim.adamw.groups == expected);
  const std::string printed = print_resolved(run);
  CHECK(printed.find("groups: [{match: \"*\", freeze: true}, {match: [a, b.c], learning_rate_scale: 0.5, "
                     "weight_decay: 0}]\n") != std::string::npos);
  CHECK(load_text(printed).optim.adamw.groups == expected);
  CHECK(load_text(groups, {"optim.groups=[]"}).optim.adamw.groups.empty());
  CHECK(load_text(groups, {"optim.groups=[{match: x}]"}).optim.adamw.groups ==
        std::vector<ParameterGroup>{{.match = {"x"}}});
  check_fields({
      {"optim: {groups: x}\n",
       "1:17: optim.groups: expected a list of maps with the keys match, learning_rate_scale, weight_decay, "
       "freeze, found x"},
      {"optim: {groups: [x]}\n", "1:18: optim.groups[0]: expected a map, found x"},
      {"optim: {groups: [{match: x}, {mach: y}]}\n",
       "1:31: optim.groups[1].mach: unknown key; did you mean optim.groups[1].match?"},
      {"optim: {groups: [{zzz: y}]}\n",
       "1:19: optim.groups[0].zzz: unknown key; known keys of optim.groups[0]: match, learning_rate_scale, "
       "weight_decay, freeze"},
      {"optim: {groups: [{match: {}}]}\n",
       "1:26: optim.groups[0].match: expected a text or a list of texts, found a map"},
      {"optim: {groups: [{match: [{}]}]}\n", "1:27: optim.groups[0].match[0]: expected a text, found a map"},
      {"optim: {groups: [{weight_decay: -1}]}\n",
       "1:33: optim.groups[0].weight_decay: expected a number of at least 0, found -1"},
      {"optim: {groups: [{freeze: 1}]}\n",
       "1:27: optim.groups[0].freeze: expected true or false, found 1; write true"},
  });
}

TEST_CASE("config fields: a misspelt key is not reported as missing too") {
  ConfigFolder folder;
  folder.write("a.yaml", "data: {trian: x}\n");
  CHECK(folder.error("a.yaml") == "a.yaml:1:8: data.trian: unknown key; did you mean data.train?");
  folder.write("b.yaml", "data: x\n");
  CHECK(folder.error("b.yaml") == "b.yaml:1:7: data: expected keys below it, found x");
}

TEST_CASE("config fields: integers") {
  const std::string expected = "1:7: seed: expected an integer of at least 0, found ";
  check_fields({
      {"seed: 1.5\n", expected + "1.5"},
      {"seed: 2.0\n", expected + "2.0; write 2"},
      {"seed: 1e4\n", expected + "1e4; write 10000"},
      {"seed: 010\n", expected + "010; write 10"},
      {"seed: 0x10\n", expected + "0x10; write 16"},
      {"seed: 0o17\n", expected + "0o17; write 15"},
      {"seed: 1_000\n", expected + "1_000; write 1000"},
      {"seed: 1,000\n", expected + "1,000; write 1000"},
      {"seed: 4M\n", expected + "4M; write 4000000"},
      {"seed: '5'\n", expected + "the text \"5\"; remove the quotes"},
      {"seed: |\n  5\n", expected + "\"5\\x0a\""},
      {"seed: -1\n", expected + "-1"},
      {"seed: 9223372036854775808\n", expected + "9223372036854775808"},
      {"seed: true\n", expected + "true"},
      {"seed: [1]\n", expected + "a list"},
      {"seed: {a: 1}\n", expected + "a map"},
      {"seed: .inf\n", expected + ".inf"},
      {"seed:\n",
       "2:1: seed: expected an integer of at least 0, found nothing; write a value, or remove the key"},
      {"seed: ~\n", expected + "nothing; write a value, or remove the key"},
  });
  CHECK(load_text("seed: 9223372036854775807\n").seed == 9223372036854775807);
}

TEST_CASE("config fields: numbers") {
  const auto optim = [](const std::string& value) { return "optim: {eps: " + value + "}\n"; };
  for (const auto& [value, found] :
       std::vector<std::pair<std::string, std::string>>{{".nan", ".nan"},
                                                        {"nan", "nan"},
                                                        {".inf", ".inf"},
                                                        {"-.Inf", "-.Inf"},
                                                        {"'0.1'", "the text \"0.1\"; remove the quotes"},
                                                        {"01.5", "01.5; write 1.5"},
                                                        {"1e999", "1e999"},
                                                        {"1e-999", "1e-999"},
                                                        {"0", "0"},
                                                        {"-1e-8", "-1e-8"},
                                                        {"1%", "1%; write 0.01"},
                                                        {"small", "small"},
                                                        {"yes", "yes"}}) {
    INFO(value);
    CHECK(error_of(optim(value)) == "a.yaml:1:14: optim.eps: expected a number above 0, found " + found);
  }
  CHECK(load_text(optim("1e-4")).optim.adamw.eps == 1e-4);
  CHECK(load_text(optim("1")).optim.adamw.eps == 1.0);
  CHECK(load_text(optim(".5")).optim.adamw.eps == 0.5);
  CHECK(error_of("train: {stop_after_seconds: 2h}\n") ==
        "a.yaml:1:29: train.stop_after_seconds: expected a number of at least 0 (seconds), found 2h; write "
        "7200");
  CHECK(error_of("model: {dropout: 1}\n") ==
        "a.yaml:1:18: model.dropout: expected a number of at least 0 and below 1, found 1");
  CHECK(error_of("sample: {top_p: 0}\n") ==
        "a.yaml:1:17: sample.top_p: expected a number above 0 and at most 1, found 0");
}

TEST_CASE("config fields: limits are named to those who go beyond") {
  CHECK(error_of("train: {steps: 1000000000001}\n") ==
        "a.yaml:1:16: train.steps: expected an integer of at least 1 (steps), found 1000000000001; the limit "
        "is "
        "1000000000000");
  CHECK(load_text("train: {steps: 1000000000000}\n").train.steps == 1000000000000);
}

TEST_CASE("config fields: truth values are true and false") {
  const auto text = [](const std::string& value) { return "checkpoint: {keep_best: " + value + "}\n"; };
  for (const char* value : {"on", "yes", "y", "1", "True", "TRUE", "On"}) {
    CHECK(error_of(text(value)) ==
          std::string("a.yaml:1:25: checkpoint.keep_best: expected true or false, found ") + value +
              "; write true");
  }
  for (const char* value : {"off", "no", "n", "0", "False", "FALSE", "Off"}) {
    CHECK(error_of(text(value)) ==
          std::string("a.yaml:1:25: checkpoint.keep_best: expected true or false, found ") + value +
              "; write false");
  }
  CHECK(error_of(text("'true'")) ==
        "a.yaml:1:25: checkpoint.keep_best: expected true or false, found the text \"true\"; remove the "
        "quotes");
  CHECK(error_of(text("maybe")) == "a.yaml:1:25: checkpoint.keep_best: expected true or false, found maybe");
  CHECK_FALSE(load_text(text("false")).checkpoint.keep_best);
}

TEST_CASE("config fields: names, devices, texts and paths") {
  check_fields({
      {"precision: fp16\n",
       "1:12: precision: expected one of float32 (or fp32, f32), bfloat16 (or bf16), found fp16; float16 is "
       "not supported; use bfloat16"},
      {"precision: bfloat61\n",
       "1:12: precision: expected one of float32 (or fp32, f32), bfloat16 (or bf16), found bfloat61; did you "
       "mean bfloat16?"},
      {"precision: [bfloat16]\n",
       "1:12: precision: expected one of float32 (or fp32, f32), bfloat16 (or bf16), found a list"},
      {"precision:\n",
       "2:1: precision: expected one of float32 (or fp32, f32), bfloat16 (or bf16), found nothing; write a "
       "value, or "
       "remove the key"},
      {"task: vision\n", "1:7: task: expected language_model, found vision"},
      {"model: {preset: llm_z}\n",
       "1:17: model.preset: expected one of none, llm_s, llm_b, moh_llm_s_75, moh_llm_s_50, moh_llm_b_75, "
       "moh_llm_b_50, llama3_8b, llama3_8b_stage1, moh_llama3_8b, dense_llm_s_75, dense_llm_s_50, "
       "dense_llm_b_75, dense_llm_b_50, dense_llama3_8b_75, found llm_z; did you mean llm_s?"},
      {"device: cuda:x\n", "1:9: device: expected a device (cpu, cuda or cuda:N), found cuda:x"},
      {"device: gpu\n",
       "1:9: device: expected a device (cpu, cuda or cuda:N), found gpu; did you mean cuda?"},
      {"output: {dir: }\n",
       "1:15: output.dir: expected a path, found nothing; write a value, or remove the key"},
      {"output: {dir: ''}\n", "1:15: output.dir: expected a path, found \"\""},
      {"output: {dir: ~/runs}\n",
       "1:15: output.dir: expected a path, found ~/runs; only a shell expands ~; write the whole path"},
      {"output: {dir: \"a\\0b\"}\n", "1:15: output.dir: expected a path, found a NUL character in it"},
      {"sample: {prompt: [a]}\n", "1:18: sample.prompt: expected a text, found a list"},
      {"sample: {prompt: null}\n",
       "1:18: sample.prompt: expected a text, found nothing; write a value, or remove the key"},
  });
  CHECK(language_run(load_text("sample: {prompt: 5}\n")).sample.prompt == "5");
  CHECK(language_run(load_text("sample: {prompt: no}\n")).sample.prompt == "no");
  CHECK(load_text("precision: 'bfloat16'\n").precision == Precision::kBFloat16);
}

TEST_CASE("config fields: sources with names") {
  ConfigFolder folder;
  const auto load = [&](const std::string& data) {
    folder.write("a.yaml", "data: {" + data + "}\n");
    return folder.load("a.yaml");
  };
  const auto error = [&](const std::string& data) {
    folder.write("a.yaml", "data: {" + data + "}\n");
    return folder.error("a.yaml");
  };
  const std::string sources =
      "train: [{name: books, path: [a, b], weight: 4.24}, {name: w i, path: c, weight: 3}], "
      "validation: [{name: books, path: d}]";
  const RunConfig run = load(sources);
  const std::vector<DataSource>& both = language_run(run).data.train;
  REQUIRE(both.size() == 2);
  CHECK(both[0].name == "books");
  CHECK(both[0].paths == std::vector<std::filesystem::path>{"a", "b"});
  CHECK(both[0].weight == 4.24);
  CHECK(both[1].paths == std::vector<std::filesystem::path>{"c"});
  // The resolved configuration says the same, here and with absolute paths.
  CHECK_THAT(print_resolved(run), Catch::Contains("train: [{name: books, path: [a, b], weight: 4.24}, "
                                                  "{name: \"w i\", path: [c], weight: 3}]\n"));
  CHECK_THAT(print_resolved(run), Catch::Contains("validation: [{name: books, path: [d]}]\n"));
  CHECK(language_run(with_absolute_paths(run)).data.train[1].paths[0] ==
        std::filesystem::current_path() / "c");
  CHECK_THAT(error("train: [{name: a, path: b, weight: 1}, {name: a, path: c, weight: 1}]"),
             Catch::Contains("data.train: expected sources of different names, found a twice"));
  CHECK_THAT(error("train: [{name: a, path: b}]"),
             Catch::Contains("data.train: expected a weight for each source, found source a without one"));
  CHECK_THAT(error("train: x, validation: [{name: a, path: b, weight: 2}]"),
             Catch::Contains("data.validation: expected sources without weight"));
  CHECK_THAT(error("train: x, reset_positions: true"), Catch::Contains("false without data.document_mask"));
}

TEST_CASE("config fields: lists") {
  check_fields({
      {"optim: {betas: 0.9}\n",
       "1:16: optim.betas: expected a list of 2 numbers of at least 0 and below 1, found 0.9"},
      {"optim: {betas: [0.9]}\n",
       "1:16: optim.betas: expected a list of 2 numbers of at least 0 and below 1, found a list of length 1"},
      {"optim: {betas: [x, 1]}\n",
       "1:17: optim.betas[0]: expected a number of at least 0 and below 1, found x\n"
       "a.yaml:1:20: optim.betas[1]: expected a number of at least 0 and below 1, found 1"},
      {"data: {validation: [a, [b]]}\n", "1:24: data.validation[1]: expected a path, found a list"},
      {"data: {validation: {a: b}}\n",
       "1:20: data.validation: expected a path, a list of paths, or a list of sources {name, path, weight}, "
       "found a map"},
      {"data: {validation: [{name: a, path: b}, c]}\n",
       "1:41: data.validation[1]: expected a source {name, path, weight}, found c"},
      {"data: {validation: [{name: a}]}\n",
       "1:21: data.validation[0]: expected a source {name, path, weight}, found one without name or path"},
      {"data: {validation: [{name: a, path: b, ratio: 3}]}\n",
       "1:40: data.validation[0].ratio: unknown key; a source has name, path and weight"},
      {"data: {validation: [{name: a, path: [b, [c]], weight: 0}]}\n",
       "1:41: data.validation[0].path[1]: expected a path, found a list\n"
       "a.yaml:1:55: data.validation[0].weight: expected a number above 0, found 0"},
      {"data: {validation: [a,,b]}\n", "1:23: data.validation[1]: expected a path, found nothing"},
      {"model: {moh: {num_shared: []}}\n",
       "1:27: model.moh.num_shared: expected an integer of at least 0 (heads), a share of a layer's heads "
       "such as 25%, or a list of such integers, one per layer, found an empty list"},
      {"model: {moh: {num_shared: [1, 2.5, -1]}}\n",
       "1:31: model.moh.num_shared[1]: expected an integer of at least 0 (heads), found 2.5\n"
       "a.yaml:1:36: model.moh.num_shared[2]: expected an integer of at least 0 (heads), found -1"},
  });
}

TEST_CASE("config fields: sections hold keys") {
  check_fields({
      {"train:\n", "2:1: train: expected keys below it, found nothing; indent its keys, or remove it"},
      {"train:\nsteps: 5\n",
       "2:1: train: expected keys below it, found nothing; indent its keys, or remove it\n"
       "a.yaml:2:1: steps: unknown key; did you mean train.steps?"},
      {"train: 5\n", "1:8: train: expected keys below it, found 5"},
      {"train: [1]\n", "1:8: train: expected keys below it, found a list"},
  });
}

TEST_CASE("config fields: all mistakes are reported at once, in the order of the files") {
  ConfigFolder folder;
  folder.write("a.yaml",
               "seed: 010\n"
               "seed: 2\n"
               "optim:\n"
               "  learning_rate: '1e-3'\n"
               "  lerning_rate: 1e-4\n"
               "  eps: .nan\n"
               "train:\n"
               "  <<: {steps: 5}\n"
               "  steps: 4M\n"
               "\tbatch_size: 2\n"
               "checkpoint: {keep_best: yes}\n"
               "---\n"
               "seed: 3\n");
  CHECK(
      folder.error("a.yaml", {"log.every=0"}) ==
      "a.yaml:1:7: seed: expected an integer of at least 0, found 010; write 10\n"
      "a.yaml:2:1: seed: expected each key once, found it a second time (first at a.yaml:1:1); keep one of "
      "the two\n"
      "a.yaml:4:18: optim.learning_rate: expected a number above 0, found the text \"1e-3\"; remove the "
      "quotes\n"
      "a.yaml:5:3: optim.lerning_rate: unknown key; did you mean optim.learning_rate?\n"
      "a.yaml:6:8: optim.eps: expected a number above 0, found .nan\n"
      "a.yaml:8:3: train: expected a key, found the merge key <<; write the keys out, or share them through "
      "include\n"
      "a.yaml:9:10: train.steps: expected an integer of at least 1 (steps), found 4M; write "
      "4000000\n"
      "a.yaml:10:1: expected spaces as indentation, found a tab; YAML allows no tab here; indent with two "
      "spaces\n"
      "command line: log.every=0: log.every: expected an integer of at least 1 (steps), found 0");
}

TEST_CASE("config fields: long lists of mistakes are cut") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  const std::string message = error_of(text);
  CHECK_THAT(message, Catch::EndsWith("\n... and 950 more"));
  CHECK(std::count(message.begin(), message.end(), '\n') == 50);
}

TEST_CASE("config fields: hostile text cannot flood or steer the terminal") {
  const std::string message = error_of("\"\\e[2J" + std::string(10000, 'x') + "\": 1\n");
  CHECK(message.size() < 500);
  CHECK(message.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace moh
