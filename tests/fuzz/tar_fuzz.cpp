#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/base/formats/tar_file.h"
#include "train/families/images/data/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The sums of headers are put right at every block, so that mutations of other fields are read.
  std::string fixed(reinterpret_cast<const char*>(data), size);
  for (std::size_t at = 0; at + 512 <= fixed.size(); at += 512) {
    fixed.replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = at; i < at + 512; ++i) sum += static_cast<unsigned char>(fixed[i]);
    for (std::size_t i = 0; i < 6; ++i) fixed[at + 153 - i] = static_cast<char>('0' + (sum >> (3 * i)) % 8);
  }
  const moh::test::MemoryFile as_is(data, size), with_sums(fixed);
  for (const moh::test::MemoryFile* memory : {&as_is, &with_sums}) {
    try {
      const moh::InputFile file(memory->path(), moh::InputKind::kData);
      moh::read_tar(file, [&](const moh::TarMember& member) {
        if (member.offset > file.size() || member.size > file.size() - member.offset) __builtin_trap();
      });
    } catch (const moh::DataError&) {
    }
    try {
      const moh::ShardIndex index = moh::make_shard_index(memory->path());
      for (std::size_t i = 0; i < index.offsets.size(); ++i) {
        const std::int64_t label = index.labels[i], classes = std::ssize(index.class_names);
        if (label < 0 || (classes > 0 && label >= classes)) __builtin_trap();
      }
    } catch (const moh::DataError&) {
    }
  }
  return 0;
}
