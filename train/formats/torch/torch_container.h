#pragma once

#include "train/formats/torch/pickle.h"
#include "train/formats/torch/torch_tensor.h"
#include "train/io/input_file.h"

namespace moh {

/// What torch.save has put into a file: one object, and apart from it the storages of its tensors.
struct TorchContents {
  PickleTree tree;
  TorchStorages storages;
  bool is_old_format = false;  ///< that of PyTorch before 1.6
};

/// Whether the file begins as one that PyTorch has written, of any version and kind.
bool has_torch_magic(const InputFile& file);

/// Reads one of
/// - the zip archives of PyTorch 1.6 and later: NAME/data.pkl is the object, NAME/data/KEY the storages. The
///   pickle's checksum is verified;
/// - the streams of PyTorch 0.1.10 to 1.5: five pickles (a magic number, the format's version, sizes of C
///   types, the object, the keys of the storages) and then each storage, its number of elements in 8 bytes in
///   front.
/// Throws the file's kind of error for another file.
TorchContents read_torch_contents(const InputFile& file);

}  // namespace moh
