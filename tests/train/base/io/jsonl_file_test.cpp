#include "train/base/io/jsonl_file.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/child_process.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace moh {

using Catch::Contains;

TEST_CASE("io: jsonl: appends over several openings") {
  const TemporaryFolder folder;
  JsonlFile(folder / "m.jsonl").append(R"({"step":1})");
  {
    JsonlFile file(folder / "m.jsonl");
    CHECK_FALSE(file.was_torn());
    file.append(R"({"step":2})");
    file.sync();
  }
  CHECK(read_file(folder / "m.jsonl") == "{\"step\":1}\n{\"step\":2}\n");
}

TEST_CASE("io: jsonl: opening cuts a torn last line off, however long") {
  const TemporaryFolder folder;
  const std::string whole = "{\"step\":1}\n{\"step\":2}\n";
  for (const std::string& torn : {std::string("{\"st"), std::string(10'000, 'x'), std::string(4096, '\0')}) {
    write_file(folder / "m.jsonl", whole + torn);
    JsonlFile file(folder / "m.jsonl");
    CHECK(file.was_torn());
    file.append("{}");
    CHECK(read_file(folder / "m.jsonl") == whole + "{}\n");
  }
  write_file(folder / "m.jsonl", "{\"step\":1}");  // nothing but a torn line
  CHECK(JsonlFile(folder / "m.jsonl").was_torn());
  CHECK(read_file(folder / "m.jsonl").empty());
}

TEST_CASE("io: jsonl: a resumed run drops the records of the steps that it repeats") {
  const TemporaryFolder folder;
  write_file(folder / "m.jsonl",
             "{\"run\":\"a\"}\n{\"step\":1}\n{\"step\":2,\"step_time\":9}\nno "
             "json\n{\"step\":3}\n{\"step\":2,\"eval\":1}\n"
             "{\"step\":4}\n{\"step\":\"9\"}\n");
  JsonlFile file(folder / "m.jsonl");
  CHECK(file.drop_records_after(2) == 2);
  file.append("{\"step\":3}");
  CHECK(read_file(folder / "m.jsonl") ==
        "{\"run\":\"a\"}\n{\"step\":1}\n{\"step\":2,\"step_time\":9}\nno json\n{\"step\":2,\"eval\":1}\n"
        "{\"step\":\"9\"}\n{\"step\":3}\n");
  CHECK(file.drop_records_after(3) == 0);
  CHECK(file.drop_records_after(-1) == 4);
}

TEST_CASE("io: jsonl: records of one kind may be repeated for the step itself") {
  const TemporaryFolder folder;
  const std::string kept =
      "{\"kind\":\"eval\",\"step\":1}\n{\"kind\":\"train\",\"step\":2}\n{\"step\":2,\"kind\":7}\n";
  write_file(folder / "m.jsonl", kept + "{\"kind\":\"eval\",\"step\":2}\n{\"kind\":\"train\",\"step\":3}\n");
  CHECK(JsonlFile(folder / "m.jsonl").drop_records_after(2, "eval") == 2);
  CHECK(read_file(folder / "m.jsonl") == kept);
}

TEST_CASE("io: jsonl: a write that fails in the middle leaves the previous end") {
  const TemporaryFolder folder;
  const auto path = folder / "m.jsonl";
  const ChildResult child = run_in_child([&] {
    JsonlFile file(path);
    file.append("{\"step\":1}");
    const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    file.append("{\"step\":2,\"text\":\"" + std::string(200, 'x') + "\"}");
    return std::string("written");
  });
  CHECK(child.exit_code == 1);
  CHECK_THAT(child.output, Contains("m.jsonl: write: expected room for ") && Contains("File too large"));
  CHECK(read_file(path) == "{\"step\":1}\n");
}

TEST_CASE("io: jsonl: refuses what is no file") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(JsonlFile(folder.path()), StorageError);
  CHECK_THROWS_AS(JsonlFile("/dev/null"), StorageError);
}

}  // namespace moh
