#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "train/base/formats/tensorflow/proto_fields.h"
#include "train/base/formats/weight_file.h"
#include "train/base/io/input_file.h"

namespace moh {

/// Attributes of a batch normalisation of a graph, beside its constants (BatchNormWithGlobalNormalization).
struct GraphNorm {
  double epsilon = 0;   ///< added to the variance
  bool scales = false;  ///< by gamma, which is ignored otherwise
};

/// The constants of type float of a frozen TensorFlow graph (a GraphDef, "graph_def.pb") under the names of
/// their nodes, read without TensorFlow; its other nodes and constants are skipped. Elements are in
/// TensorFlow's order: of a convolution [kh, kw, in, out]. The file is untrusted, as of every WeightFile.
class FrozenGraph : public WeightFile {
 public:
  /// Reads names, types and shapes. Throws CheckpointError for what is no graph, a constant without its
  /// elements, and two constants of one name.
  explicit FrozenGraph(const std::filesystem::path& path);

  const std::filesystem::path& path() const override { return file_.path(); }
  std::string format() const override { return "TensorFlow's frozen graph"; }
  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override;

  /// The batch normalisation of the node of that name, or nullptr.
  const GraphNorm* norm(std::string_view name) const;

 private:
  struct Constant;

  void add_node(const ProtoField& node);
  void add_constant(const std::string& name, const ProtoField& tensor);
  Constant parse_tensor(const std::string& name, const ProtoField& tensor);
  [[noreturn]] void fail(const std::string& node, std::string_view expected, const std::string& found) const;

  InputFile file_;
  std::vector<WeightInfo> found_;
  std::vector<std::vector<float>>
      listed_;  ///< elements that the file lists one by one, the last for the rest
  std::map<std::string, GraphNorm, std::less<>> norms_;
};

/// Whether a file may begin as a graph does: with a node's field, which the other formats of weights do not.
bool looks_like_graph(std::string_view first_bytes);

}  // namespace moh
