#include "train/weights/meta_weights.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/formats/torch/torch_weights.h"
#include "train/base/io/printable.h"
#include "train/weights/hf/config_json.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostFiles = 64;
constexpr double kMostHeads = 65536, kMostWidth = 1 << 20;

/// How tensor parallelism divides a matrix among files.
enum class Division { kRows, kColumns, kRowsOrColumns, kNone };

/// Whose heads the rows are, where their order differs.
enum class Turned { kNo, kQueries, kKeys };

struct MetaName {
  std::string_view meta, hf;
  Division division;
  Turned turned = Turned::kNo;
};

constexpr MetaName kOfModel[] = {
    {"tok_embeddings.weight", "model.embed_tokens.weight", Division::kRowsOrColumns},
    {"norm.weight", "model.norm.weight", Division::kNone},
    {"output.weight", "lm_head.weight", Division::kRows}};

constexpr MetaName kOfLayer[] = {
    {"attention_norm.weight", "input_layernorm.weight", Division::kNone},
    {"attention.wq.weight", "self_attn.q_proj.weight", Division::kRows, Turned::kQueries},
    {"attention.wk.weight", "self_attn.k_proj.weight", Division::kRows, Turned::kKeys},
    {"attention.wv.weight", "self_attn.v_proj.weight", Division::kRows},
    {"attention.wo.weight", "self_attn.o_proj.weight", Division::kColumns},
    {"ffn_norm.weight", "post_attention_layernorm.weight", Division::kNone},
    {"feed_forward.w1.weight", "mlp.gate_proj.weight", Division::kRows},
    {"feed_forward.w2.weight", "mlp.down_proj.weight", Division::kColumns},
    {"feed_forward.w3.weight", "mlp.up_proj.weight", Division::kRows}};

struct Named {
  const MetaName* kind;
  std::string hf;
};

/// The tensor in transformers' names; nothing for one that is none of a LLaMA's.
std::optional<Named> named(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) {
    const auto* const found = std::ranges::find(kOfModel, name, &MetaName::meta);
    if (found == std::ranges::end(kOfModel)) return std::nullopt;
    return Named{found, std::string(found->hf)};
  }
  const std::size_t dot = name.find('.', kLayers.size());
  if (dot == std::string_view::npos) return std::nullopt;
  const auto* const found = std::ranges::find(kOfLayer, name.substr(dot + 1), &MetaName::meta);
  if (found == std::ranges::end(kOfLayer)) return std::nullopt;
  return Named{found, "model." + std::string(name.substr(0, dot + 1)) + std::string(found->hf)};
}

/// consolidated.00.pth, consolidated.01.pth ... as far as there are any.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (std::size_t i = 0; i < kMostFiles; ++i) {
    const std::string number = (i < 10 ? "0" : "") + std::to_string(i);
    const fs::path file = folder / ("consolidated." + number + ".pth");
    std::error_code ignored;
    if (!fs::exists(file, ignored)) break;
    files.push_back(file);
  }
  return files;
}

/// One matrix of the model: its parts, by file.
struct Joined {
  std::vector<const WeightInfo*> parts;
  bool by_columns = false;
  std::int64_t rows_of_head = 0;          // if not 0: rows of each head are in Meta's order
  std::uint64_t rows = 1, row_bytes = 0;  // of the whole matrix
};

class MetaWeights final : public WeightFile {
 public:
  explicit MetaWeights(const fs::path& first) : path_(first) {
    const ConfigJson params(first.parent_path() / kMetaConfig);
    width_ = params.integer("dim", 1, kMostWidth);
    heads_ = params.integer("n_heads", 1, kMostHeads);
    kv_heads_ = params.has("n_kv_heads") ? params.integer("n_kv_heads", 1, kMostHeads) : heads_;
    for (const fs::path& file : files_of(first.parent_path())) files_.push_back(open_torch_weights(file));
    if (files_.empty()) fail("", "consolidated.00.pth and the files that follow it", "none");
    std::vector<WeightInfo> tensors;
    for (const WeightInfo& tensor : files_.front()->tensors()) {
      if (tensor.name.ends_with("rope.freqs")) continue;  // computed
      tensors.push_back(joined(tensor));
    }
    check_names();
    if (const WeightInfo* twice = set_tensors(std::move(tensors)))
      fail(printable(twice->name), "this tensor once", "it twice");
  }

  const fs::path& path() const override { return path_; }
  std::string format() const override {
    return "PyTorch, of Meta's code, in " + std::to_string(files_.size()) +
           (files_.size() == 1 ? " file" : " files");
  }
  std::vector<fs::path> files() const override {
    std::vector<fs::path> files;
    for (const auto& file : files_) files.push_back(file->path());
    return files;
  }

  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override {
    const Joined& whole = joined_.at(tensor.place);
    while (!to.empty()) {
      const Piece piece = piece_at(whole, offset);
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece.bytes, to.size()));
      files_[piece.file]->read(*whole.parts[piece.file], piece.offset, to.first(size));
      to = to.subspan(size);
      offset += size;
    }
  }

 private:
  /// Elements that lie together in a file, too.
  struct Piece {
    std::size_t file;
    std::uint64_t offset, bytes;
  };

  static Piece piece_at(const Joined& whole, std::uint64_t offset) {
    const std::uint64_t row = offset / whole.row_bytes, within = offset % whole.row_bytes;
    const std::uint64_t files = whole.parts.size();
    if (whole.by_columns) {
      const std::uint64_t part = whole.row_bytes / files, column = within % part;
      return {within / part, row * part + column, part - column};
    }
    const std::uint64_t rows_of_file = whole.rows / files, from = metas_row(whole, row);
    const std::uint64_t at = from % rows_of_file * whole.row_bytes + within;
    const std::uint64_t end =
        whole.rows_of_head > 0 ? whole.row_bytes - within : rows_of_file * whole.row_bytes - at;
    return {from / rows_of_file, at, end};
  }

  /// Where row i + j d/2 of a head comes from.
  static std::uint64_t metas_row(const Joined& whole, std::uint64_t row) {
    if (whole.rows_of_head == 0) return row;
    const auto d = static_cast<std::uint64_t>(whole.rows_of_head);
    const std::uint64_t in_head = row % d;
    return row - in_head + in_head % (d / 2) * 2 + in_head / (d / 2);
  }

  WeightInfo joined(const WeightInfo& first) {
    const std::optional<Named> name = named(first.name);
    if (!name) fail(printable(first.name), "tensors of a LLaMA alone", "this one", "moh has no such model");
    Joined whole;
    for (const auto& file : files_) whole.parts.push_back(&part(*file, first));
    const std::int64_t files = name->kind->division == Division::kNone ? 1 : std::ssize(files_);
    if (files == 1) whole.parts.resize(1);
    WeightInfo info{name->hf, first.stored_dtype, first.shape,
                    first.bytes * static_cast<std::uint64_t>(files), joined_.size()};
    if (name->kind->division == Division::kNone) {
      whole.row_bytes = std::max<std::uint64_t>(first.bytes, 1);
    } else {
      divide(whole, *name->kind, first, info);
    }
    joined_.push_back(std::move(whole));
    return info;
  }

  /// The matrix that the parts are of.
  void divide(Joined& whole, const MetaName& kind, const WeightInfo& first, WeightInfo& info) const {
    if (first.shape.rank() != 2 || first.shape.numel() == 0)
      fail(printable(first.name), "a matrix", to_string(first.shape));
    const auto files = std::ssize(whole.parts);
    // Parts of an embedding that are as wide as the model are rows (LLaMA 3), others columns.
    whole.by_columns = kind.division == Division::kColumns ||
                       (kind.division == Division::kRowsOrColumns && first.shape[1] != width_);
    info.shape = whole.by_columns ? Shape{first.shape[0], first.shape[1] * files}
                                  : Shape{first.shape[0] * files, first.shape[1]};
    whole.rows = static_cast<std::uint64_t>(info.shape[0]);
    whole.row_bytes = info.bytes / whole.rows;
    if (kind.turned == Turned::kNo) return;
    const std::int64_t heads = kind.turned == Turned::kQueries ? heads_ : kv_heads_;
    if (info.shape[0] % (2 * heads) != 0) {
      fail(printable(first.name),
           "rows of " + std::to_string(heads) + " heads of an even width, as params.json says",
           std::to_string(info.shape[0]) + " rows");
    }
    whole.rows_of_head = info.shape[0] / heads;
  }

  /// The file's part of a tensor, which is like that of the first file.
  const WeightInfo& part(const WeightFile& file, const WeightInfo& first) const {
    const std::string where = file.path().filename().string() + ", " + printable(first.name);
    const WeightInfo* const found = file.find(first.name);
    if (found == nullptr) fail(where, "a part of this tensor", "none");
    if (found->shape != first.shape || found->stored_dtype != first.stored_dtype) {
      fail(where, std::string(first.stored_dtype) + " " + to_string(first.shape) + ", as in the first file",
           std::string(found->stored_dtype) + " " + to_string(found->shape));
    }
    return *found;
  }

  void check_names() const {
    for (const auto& file : files_) {
      for (const WeightInfo& tensor : file->tensors()) {
        if (files_.front()->find(tensor.name) == nullptr)
          fail(file->path().filename().string() + ", " + printable(tensor.name), "tensors of all files",
               "one that " + files_.front()->path().filename().string() + " lacks");
      }
    }
  }

  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const {
    throw CheckpointError(error_message(path_.string(), what, expected, found, fix));
  }

  fs::path path_;
  std::int64_t width_ = 0, heads_ = 0, kv_heads_ = 0;
  std::vector<std::unique_ptr<WeightFile>> files_;
  std::vector<Joined> joined_;  // by WeightInfo::place
};

}  // namespace

bool is_meta_weights(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return name.starts_with("consolidated.") && name.ends_with(".pth") &&
         fs::exists(path.parent_path() / kMetaConfig, ignored);
}

std::unique_ptr<WeightFile> open_meta_weights(const fs::path& first) {
  return std::make_unique<MetaWeights>(first);
}

}  // namespace moh
