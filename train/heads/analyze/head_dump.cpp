#include "train/heads/analyze/head_dump.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "models/layers/head_routing.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/safetensors.h"
#include "train/base/io/input_file.h"
#include "train/heads/analyze/head_analysis.h"

namespace moh {

namespace {

/// A description of the tensors of a file, for those who have the file alone. `tokens`: the first axes of a
/// tensor that has rows for tokens.
WeightFile::Metadata meanings(const std::string& tokens) {
  const auto of_tokens = [&](const char* text) { return "[" + tokens + text; };
  return {
      {"format", "moh head dump"},
      {"version", "1"},
      {"sources", "[N] or [N, T] numbers of the sources, from 0, in the order of source_names"},
      {"gates", of_tokens(", H] factors of the heads' outputs, 0 where a head is not selected")},
      {"selected", of_tokens(", H] 1 where a token selects a head")},
      {"x", of_tokens(", D] input of the layer's attention, after its norm")},
      {"q", of_tokens(", H, d] queries, after the rotary embedding")},
      {"k", of_tokens(", G, d] keys, after the rotary embedding")},
      {"v", of_tokens(", G, d] values")},
      {"heads", of_tokens(", H, d] outputs of the heads times their gates, before the output projection")}};
}

std::string prefix_of(const std::vector<std::string>& sides, std::size_t side) {
  return sides.empty() ? "" : sides.at(side) + "_";
}

}  // namespace

/// The rows of one tensor so far.
struct HeadDump::Part {
  WeightInfo info;
  OutputFile file;
};

HeadDump::HeadDump(std::filesystem::path path, std::int64_t sequences, std::vector<std::int64_t> layers)
    : path_(std::move(path)),
      wanted_(sequences),
      layers_(std::move(layers)),
      folder_(path_.string() + ".parts") {}

HeadDump::~HeadDump() = default;

void HeadDump::begin(const AnalysisPass& pass, const std::vector<std::string>& sides) {
  pass_ = pass;
  sides_ = sides;
  taken_ = 0;
}

/// Whether sequences of this pass are taken; decided in its first layer, whose tokens are all of a sequence.
bool HeadDump::takes(const AttentionTrace& trace) {
  if (trace.layer > 0) return taken_ > 0;
  if (!length_) length_ = trace.x.dim(1);
  const bool fits = is_packed() || trace.x.dim(1) == *length_;
  taken_ = fits ? std::min(sequences_in(pass_, trace), wanted_ - sequences_) : 0;
  sequences_ += taken_;
  if (taken_ == 0) return false;
  if (is_packed())
    append_packed_inputs();
  else
    append_inputs();
  return true;
}

void HeadDump::append_inputs() {
  if (const Tensor ids = tokens_of(pass_, 0).ids; ids.defined()) append("tokens", ids, 0);
  const auto numbers = static_cast<std::int64_t>(pass_.sources.size()), batch = pass_.inputs.dim(0);
  const Tensor sources = tensor_of<std::int32_t>({numbers}, pass_.sources);
  append("sources", numbers == batch ? sources : sources.reshape({batch, numbers / batch}), 0);
}

void HeadDump::append_packed_inputs() {
  for (std::size_t side = 0; side < pass_.tokens.size(); ++side) {
    const auto& [ids, offsets] = pass_.tokens[side];
    if (ids.defined()) append(prefix_of(sides_, side) + "tokens", ids, side);
    std::vector<std::int64_t> lengths;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) lengths.push_back(offsets[i + 1] - offsets[i]);
    const Tensor all = tensor_of<std::int64_t>({std::ssize(lengths)}, lengths);
    append_rows(prefix_of(sides_, side) + "lengths", all.slice(0, taken_));
  }
  const Tensor sources = tensor_of<std::int32_t>({std::ssize(pass_.sources)}, pass_.sources);
  append_rows("sources", sources.slice(0, taken_));
}

void HeadDump::observe(const AttentionTrace& trace) {
  if (!takes(trace)) return;
  const std::string prefix = "layers." + std::to_string(trace.layer) + ".";
  if (trace.choice != nullptr) {
    append(prefix + "gates", trace.choice->gates.value(), trace.side);
    append(prefix + "selected", selected_of(trace), trace.side);
  }
  if (std::ranges::count(layers_, trace.layer) == 0) return;
  const std::size_t side = trace.side, key_side = trace.key_side;
  for (const auto& [name, tensor, of] :
       {std::tuple{"x", &trace.x, side}, std::tuple{"q", &trace.q, side}, std::tuple{"k", &trace.k, key_side},
        std::tuple{"v", &trace.v, key_side}, std::tuple{"heads", &trace.heads, side}}) {
    if (tensor->defined()) append(prefix + name, *tensor, of);
  }
}

/// The rows of a tensor [B, T, ...] of `side` that belong to the sequences that are taken.
void HeadDump::append(const std::string& name, const Tensor& tensor, std::size_t side) {
  if (!is_packed()) return append_rows(name, tensor.slice(0, taken_));
  const std::int64_t end = tokens_of(pass_, side).offsets.at(static_cast<std::size_t>(taken_));
  append_rows(name, tensor.select(0).slice(0, end));
}

void HeadDump::append_rows(const std::string& name, const Tensor& taken) {
  std::unique_ptr<Part>& part = parts_[name];
  if (!part) {
    const std::string file = "part" + std::to_string(parts_.size());
    const std::vector<NamedTensor> first = {{name, taken.slice(0, 0)}};
    part.reset(new Part{infos_of(first).front(), OutputFile(folder_.temporary() / file)});
  }
  WeightInfo& info = part->info;
  info.bytes += taken.bytes();
  std::vector<std::int64_t> extents(taken.shape().extents().begin(), taken.shape().extents().end());
  extents[0] += info.shape[0];
  info.shape = Shape(extents);
  stream_elements(taken, [&](std::span<const std::byte> block) { part->file.write(block); });
}

void HeadDump::write(WeightFile::Metadata metadata) {
  const bool packed = is_packed();
  metadata.merge(meanings(packed ? "T" : "N, T"));
  for (std::size_t side = 0; side < std::max<std::size_t>(sides_.size(), 1); ++side) {
    metadata[prefix_of(sides_, side) + "tokens"] =
        packed ? "[T] token ids, of one sequence after the other" : "[N, T] token ids";
    if (packed) metadata[prefix_of(sides_, side) + "lengths"] = "[N] tokens of each sequence";
  }
  metadata["sequences"] = std::to_string(sequences_);
  std::vector<WeightInfo> infos;
  std::vector<const Part*> parts;
  for (const auto& [name, part] : parts_) {
    infos.push_back(part->info);
    parts.push_back(part.get());
  }
  const SafetensorsLayout layout(infos, metadata);
  DurableFile file(path_, layout.bytes());
  write_safetensors(
      layout,
      [&](std::size_t index, ByteSink to) {
        const InputFile part(parts[index]->file.path(), InputKind::kData);
        const auto read = [&](std::uint64_t offset, std::span<std::byte> block) {
          part.read(offset, block, infos[index].name);
        };
        stream_blocks(infos[index].bytes, read, to);
      },
      [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace moh
