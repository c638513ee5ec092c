#include "train/heads/analyze/head_dump.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "models/layers/head_routing.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/safetensors.h"
#include "train/base/io/input_file.h"
#include "train/heads/analyze/head_analysis.h"

namespace moh {

namespace {

/// A description of the tensors of a file, for those who have the file alone.
const WeightFile::Metadata& meanings() {
  static const WeightFile::Metadata texts = {
      {"format", "moh head dump"},
      {"version", "1"},
      {"tokens", "[N, T] token ids"},
      {"sources", "[N] or [N, T] numbers of the sources, from 0, in the order of source_names"},
      {"gates", "[N, T, H] factors of the heads' outputs, 0 where a head is not selected"},
      {"selected", "[N, T, H] 1 where a token selects a head"},
      {"x", "[N, T, D] input of the layer's attention, after its norm"},
      {"q", "[N, T, H, d] queries, after the rotary embedding"},
      {"k", "[N, T, G, d] keys, after the rotary embedding"},
      {"v", "[N, T, G, d] values"},
      {"heads", "[N, T, H, d] outputs of the heads times their gates, before the output projection"}};
  return texts;
}

Tensor selected_of(const AttentionTrace& trace) {
  return tensor_of<std::uint8_t>({trace.heads.dim(0), trace.heads.dim(1), trace.heads.dim(2)},
                                 selection_of(trace));
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

void HeadDump::begin(const AnalysisPass& pass) {
  pass_ = pass;
  rows_ = 0;
}

/// The sequences of this pass that are taken; decided in its first layer, whose tokens are all of a sequence.
std::int64_t HeadDump::rows_of(const AttentionTrace& trace) {
  if (trace.layer > 0) return rows_;
  if (!length_) length_ = trace.x.dim(1);
  rows_ = trace.x.dim(1) == *length_ ? std::min(trace.x.dim(0), wanted_ - sequences_) : 0;
  sequences_ += rows_;
  if (rows_ > 0) append_inputs(rows_);
  return rows_;
}

void HeadDump::append_inputs(std::int64_t rows) {
  if (pass_.ids.defined()) append("tokens", pass_.ids, rows);
  const auto numbers = static_cast<std::int64_t>(pass_.sources.size()), batch = pass_.inputs.dim(0);
  const Tensor sources = tensor_of<std::int32_t>({numbers}, pass_.sources);
  append("sources", numbers == batch ? sources : sources.reshape({batch, numbers / batch}), rows);
}

void HeadDump::observe(const AttentionTrace& trace) {
  const std::int64_t rows = rows_of(trace);
  if (rows == 0) return;
  const std::string prefix = "layers." + std::to_string(trace.layer) + ".";
  if (trace.choice != nullptr) {
    append(prefix + "gates", trace.choice->gates.value(), rows);
    append(prefix + "selected", selected_of(trace), rows);
  }
  if (std::ranges::count(layers_, trace.layer) == 0) return;
  for (const auto& [name, tensor] :
       {std::pair{"x", &trace.x}, std::pair{"q", &trace.q}, std::pair{"k", &trace.k},
        std::pair{"v", &trace.v}, std::pair{"heads", &trace.heads}}) {
    if (tensor->defined()) append(prefix + name, *tensor, rows);
  }
}

void HeadDump::append(const std::string& name, const Tensor& tensor, std::int64_t rows) {
  const Tensor taken = tensor.slice(0, rows);
  std::unique_ptr<Part>& part = parts_[name];
  if (!part) {
    const std::string file = "part" + std::to_string(parts_.size());
    const std::vector<NamedTensor> first = {{name, tensor.slice(0, 0)}};
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
  metadata.insert(meanings().begin(), meanings().end());
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
