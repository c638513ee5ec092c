#include "train/formats/torch/torch_dtype.h"

namespace moh {

namespace {

constexpr TorchDType kDTypes[] = {
    {"float32", "FloatStorage", "F32", 4},
    {"float64", "DoubleStorage", "F64", 8},
    {"float16", "HalfStorage", "F16", 2},
    {"bfloat16", "BFloat16Storage", "BF16", 2},
    {"int64", "LongStorage", "I64", 8},
    {"int32", "IntStorage", "I32", 4},
    {"int16", "ShortStorage", "I16", 2},
    {"int8", "CharStorage", "I8", 1},
    {"uint8", "ByteStorage", "U8", 1},
    {"bool", "BoolStorage", "BOOL", 1},
    {"complex64", "ComplexFloatStorage", "C64", 8},
    {"complex128", "ComplexDoubleStorage", "C128", 16},
    {"complex32", "", "C32", 4},
    {"uint16", "", "U16", 2},
    {"uint32", "", "U32", 4},
    {"uint64", "", "U64", 8},
    {"float8_e4m3fn", "", "F8_E4M3", 1},
    {"float8_e5m2", "", "F8_E5M2", 1},
    {"float8_e4m3fnuz", "", "F8_E4M3FNUZ", 1},
    {"float8_e5m2fnuz", "", "F8_E5M2FNUZ", 1},
    {"float8_e8m0fnu", "", "F8_E8M0", 1},
    {"qint8", "QInt8Storage", "QI8", 1},
    {"quint8", "QUInt8Storage", "QU8", 1},
    {"qint32", "QInt32Storage", "QI32", 4},
    {"quint4x2", "QUInt4x2Storage", "QU4X2", 1},
    {"quint2x4", "QUInt2x4Storage", "QU2X4", 1},
};

/// What stands behind "PREFIX." in `name`, or nothing.
std::string_view behind(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
}

}  // namespace

const TorchDType* find_torch_storage(std::string_view class_name) {
  std::string_view storage = behind(class_name, "torch.cuda.");
  if (storage.empty()) storage = behind(class_name, "torch.");
  for (const TorchDType& dtype : kDTypes) {
    if (!storage.empty() && dtype.storage == storage) return &dtype;
  }
  return nullptr;
}

const TorchDType* find_torch_dtype(std::string_view name) {
  const std::string_view dtype = behind(name, "torch.");
  for (const TorchDType& known : kDTypes) {
    if (known.torch == dtype) return &known;
  }
  return nullptr;
}

bool is_untyped_storage(std::string_view class_name) {
  return class_name == "torch.storage.UntypedStorage" || class_name == "torch.UntypedStorage" ||
         class_name == "torch.storage._UntypedStorage";
}

}  // namespace moh
