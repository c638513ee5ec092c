#include <catch2/catch.hpp>

#include "tests/train/trainer/config/config_folder.h"

namespace moh {
namespace {

using Paths = std::vector<std::filesystem::path>;

TEST_CASE("config include: the including file replaces keys one by one, and lists as a whole") {
  ConfigFolder folder;
  folder.write("base/common.yaml", "seed: 1\ntrain: {steps: 10, batch_size: 20}\ndata: {train: [a, b]}\n");
  folder.write("main.yaml", "include: base/common.yaml\ntrain: {steps: 11}\ndata: {train: c}\n");
  const RunConfig run = folder.load("main.yaml", {"train.accumulate=3", "data.train=[d,'e f']"});
  CHECK(run.seed == 1);
  CHECK(run.train.steps == 11);
  CHECK(run.train.batch_size == 20);
  CHECK(run.train.accumulate == 3);
  CHECK(language_run(run).data.train.at(0).paths == Paths{"d", "e f"});
  CHECK(language_run(folder.load("main.yaml")).data.train.at(0).paths == Paths{"c"});
}

TEST_CASE("config include: of several files the later holds, and files may be included on several ways") {
  ConfigFolder folder;
  folder.write("sub/one.yaml", "include: ../zero.yaml\nseed: 1\ntrain: {steps: 1}\n");
  folder.write("two.yaml", "include: [zero.yaml]\nseed: 2\n");
  folder.write("zero.yaml", "data: {train: x}\nseed: 0\n");
  folder.write("main.yaml", "include: [sub/one.yaml, two.yaml]\n");
  const RunConfig run = folder.load("main.yaml");
  CHECK(run.seed == 2);
  CHECK(run.train.steps == 1);
}

TEST_CASE("config include: mistakes have the place in the file they are in") {
  ConfigFolder folder;
  folder.write("sub/base.yaml", "seed: -1\n");
  folder.write("main.yaml", "include: sub/base.yaml\nseed: 2\ndata: {train: x}\nlog: {every: 0}\n");
  CHECK(folder.error("main.yaml") ==
        "main.yaml:4:14: log.every: expected an integer of at least 1 (steps), found 0\n"
        "sub/base.yaml:1:7: seed: expected an integer of at least 0, found -1");
}

TEST_CASE("config include: circles are refused") {
  ConfigFolder folder;
  folder.write("a.yaml", "include: b.yaml\n");
  folder.write("b.yaml", "include: ./x/../c.yaml\n");
  folder.write("c.yaml", "seed: 1\ninclude: a.yaml\n");
  folder.write("self.yaml", "include: self.yaml\n");
  const std::string text = "include: expected files that do not include each other in a circle, found ";
  CHECK_THAT(folder.error("a.yaml"), Catch::StartsWith("c.yaml:2:10: " + text));
  CHECK_THAT(folder.error("self.yaml"), Catch::StartsWith("self.yaml:1:10: " + text));
}

TEST_CASE("config include: depth and number of files are limited") {
  ConfigFolder folder;
  for (int i = 0; i < 20; ++i) {
    folder.write("deep" + std::to_string(i) + ".yaml", "include: deep" + std::to_string(i + 1) + ".yaml\n");
  }
  CHECK(folder.error("deep0.yaml") ==
        "deep8.yaml:1:10: include: expected at most 8 levels of includes, found more");
  // Every file twice: 2^8 readings without the second limit.
  for (int i = 0; i < 8; ++i) {
    const std::string next = "wide" + std::to_string(i + 1) + ".yaml";
    std::string both = "include: [";
    both.append(next).append(", ").append(next).append("]\n");
    folder.write("wide" + std::to_string(i) + ".yaml", both);
  }
  folder.write("wide8.yaml", "seed: 1\n");
  CHECK_THAT(folder.error("wide0.yaml"), Catch::Contains("include: expected at most 64 files, found more"));
}

TEST_CASE("config include: files that cannot be read, and values that name none") {
  ConfigFolder folder;
  folder.write("sub/x.yaml", "seed: 1\n");
  folder.write("a.yaml", "include:\n  - no.yaml\n  - sub\n  - ''\n  - {x: y}\n");
  CHECK(folder.error("a.yaml") ==
        "a.yaml:2:5: include: no.yaml: expected a readable file, found: No such file or directory\n"
        "a.yaml:3:5: include: sub: expected a file, found a folder\n"
        "a.yaml:4:5: include: expected the path of a config, or a list of such paths, found \"\"\n"
        "a.yaml:5:5: include: expected the path of a config, or a list of such paths, found a map");
  folder.write("b.yaml", "data: {train: x}\nmodel: {include: sub/x.yaml}\n");
  CHECK_THAT(folder.error("b.yaml"),
             Catch::StartsWith("b.yaml:2:9: model.include: unknown key; known keys of model: "));
  CHECK(folder.error("none.yaml") == "none.yaml: expected a readable file, found: No such file or directory");
  CHECK(folder.error("sub") == "sub: expected a file, found a folder");
}

TEST_CASE("config override: a plain value is taken as it stands") {
  const RunConfig run =
      load_text("seed: 1\n", {"sample.prompt=ROMEO: a # [b", "seed=5", "output.dir=a=b", "seed=6"});
  CHECK(language_run(run).sample.prompt == "ROMEO: a # [b");
  CHECK(run.output.dir == "a=b");
  CHECK(run.seed == 6);
  CHECK(language_run(load_text("seed: 1\n", {"sample.prompt="})).sample.prompt.empty());
  CHECK(language_run(load_text("seed: 1\n", {"sample.prompt=\"a\\nb\""})).sample.prompt == "a\nb");
  CHECK(language_run(load_text("seed: 1\n", {"sample.prompt=a\nb"})).sample.prompt == "a\nb");
}

TEST_CASE("config override: lists and maps are YAML") {
  const RunConfig run =
      load_text("train: {steps: 7, batch_size: 8}\n", {"train={steps: 9}", "optim.betas=[0.5,0.6]"});
  CHECK(run.train.steps == 9);
  CHECK(run.train.batch_size == 8);
  CHECK(run.optim.adamw.betas == std::array{0.5, 0.6});
}

TEST_CASE("config override: mistakes quote the argument") {
  const std::pair<std::string, std::string> cases[] = {
      {"train.steps=abc",
       "command line: train.steps=abc: train.steps: expected an integer of at least 1 (steps), "
       "found abc"},
      {"train.stpes=5", "command line: train.stpes=5: train.stpes: unknown key; did you mean train.steps?"},
      {"train.steps", "command line: train.steps: expected key.path=value, found no ="},
      {"=5", "command line: =5: expected key.path=value, found no key of this form"},
      {".seed=5", "command line: .seed=5: expected key.path=value, found no key of this form"},
      {"train..steps=5", "command line: train..steps=5: expected key.path=value, found no key of this form"},
      {"train.=5", "command line: train.=5: expected key.path=value, found no key of this form"},
      {"data.train=[a",
       "command line: data.train=[a: expected valid YAML, found a syntax error (end of sequence flow "
       "not found); a ] or a closing quote is missing"},
      {"data.train='a",
       "command line: data.train='a: expected valid YAML, found a syntax error (illegal EOF in scalar); "
       "close the "
       "quotes"},
      {"seed=\"5\"",
       "command line: seed=\"5\": seed: expected an integer of at least 0, found the text \"5\"; remove the "
       "quotes"},
      {"seed=", "command line: seed=: seed: expected an integer of at least 0, found \"\""},
      {"output.dir=null",
       "command line: output.dir=null: output.dir: expected a path, found nothing (null); remove the "
       "key, or quote the text"},
      {"train=5", "command line: train=5: train: expected keys below it, found 5"},
      {"seed.x=5", "command line: seed.x=5: seed: expected an integer of at least 0, found a map"},
      {"output.dir=\xff", "command line: output.dir=\\xff: expected text in UTF-8, found the byte 0xff"},
      {"optim={eps: 1, eps: 2}",
       "command line: optim={eps: 1, eps: 2}: eps: expected each key once, found it a second "
       "time (first at command line: optim={eps: 1, eps: 2}); keep one of the two"},
  };
  for (const auto& [argument, message] : cases) {
    INFO(argument);
    CHECK(error_of("log: {every: 1}\n", {argument}) == message);
  }
  CHECK_THAT(
      error_of("log: {every: 1}\n", {"include=b.yaml"}),
      Catch::StartsWith("command line: include=b.yaml: include: unknown key; known keys: task, seed,"));
}

}  // namespace
}  // namespace moh
