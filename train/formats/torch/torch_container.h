#pragma once

#include "train/formats/torch/pickle.h"
#include "train/formats/torch/torch_storage.h"
#include "train/io/input_file.h"

namespace moh {

/// What torch.save has put into a file: one object, and apart from it the storages of its tensors.
struct TorchContents {
  PickleTree tree;
  TorchStorages storages;
};

/// Whether the file begins as a zip archive does.
bool has_zip_magic(const InputFile& file);
/// Whether the file begins as one in the format of PyTorch before 1.6 does.
bool has_old_torch_magic(const InputFile& file);
/// Whether it is a tar archive, as PyTorch before 0.1.10 wrote.
bool has_tar_magic(const InputFile& file);

/// The zip archive of PyTorch 1.6 and later: NAME/data.pkl is the object, NAME/data/KEY the storages. The
/// pickle's checksum is verified.
TorchContents read_torch_zip(const InputFile& file);

/// The stream of PyTorch 0.1.10 to 1.5: five pickles (a magic number, the format's version, sizes of C types,
/// the object, the keys of the storages) and then each storage, its number of elements in 8 bytes in front.
TorchContents read_old_torch(const InputFile& file);

}  // namespace moh
