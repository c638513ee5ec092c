#include "train/trainer/task/stored_precision.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "train/trainer/task/load_model.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

using Types = std::map<std::string_view, std::string_view>;  // of tensors, by name

/// Whether the parameters of the run's model have the types of the tensors of their names.
bool has_types(const RunConfig& run, const Families& families, const Types& stored) {
  const std::vector<WeightInfo> expected =
      expected_tensors(families.of(run), *run.family, dtype_of(run.precision));
  return std::ranges::all_of(expected, [&](const WeightInfo& parameter) {
    const auto found = stored.find(parameter.name);
    return found == stored.end() || found->second == parameter.stored_dtype;
  });
}

}  // namespace

bool take_precision(std::span<const WeightInfo> tensors, const Families& families, RunConfig& run) {
  Types stored;
  for (const WeightInfo& tensor : tensors) stored.emplace(tensor.name, tensor.stored_dtype);
  RunConfig tried = run;
  MohConfig* const moh = tried.family->moh();
  const RouterPrecision asked = moh != nullptr ? moh->router_precision : RouterPrecision::kSame;
  for (const RouterPrecision routers : {asked, RouterPrecision::kSame, RouterPrecision::kFloat32}) {
    if (moh != nullptr) moh->router_precision = routers;
    for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      tried.precision = precision;
      if (!has_types(tried, families, stored)) continue;
      run = tried;
      return true;
    }
  }
  return false;
}

RouterPrecision router_precision_of(std::span<const WeightInfo> tensors) {
  const bool are_float32 = std::ranges::any_of(tensors, [](const WeightInfo& tensor) {
    return tensor.stored_dtype == "F32" && tensor.name.find("attn.wg") != std::string::npos;
  });
  return are_float32 && main_type(tensors) != "F32" ? RouterPrecision::kFloat32 : RouterPrecision::kSame;
}

}  // namespace moh
