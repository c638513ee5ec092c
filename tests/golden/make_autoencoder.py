"""Makes tests/golden/autoencoder: a small AutoencoderKL of diffusers with random weights, and what it makes of images and of latents.
Needs torch, safetensors and diffusers:

    python3 tests/golden/make_autoencoder.py
"""

import pathlib

import torch
from diffusers import AutoencoderKL
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "autoencoder"


def main():
    torch.manual_seed(11)
    model = AutoencoderKL(block_out_channels=(8, 12, 16), layers_per_block=2, norm_num_groups=4, latent_channels=4,
                          down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3, sample_size=32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:  # as they come, scales are 1 and offsets 0
                parameter.add_(0.3 * torch.randn_like(parameter))
        model = model.double()
        images, latents = torch.rand(2, 3, 16, 24).double() * 2 - 1, torch.randn(2, 4, 4, 6).double()
        posterior = model.encode(images).latent_dist
        expected = {"images": images, "mean": posterior.mean, "deviation": posterior.std, "latents": latents,
                    "decoded": model.decode(latents).sample}
    model.float().save_pretrained(FOLDER)
    last = {name: tensor.permute(0, 2, 3, 1).float().contiguous() for name, tensor in expected.items()}
    save_file(last, FOLDER / "expected.safetensors")


if __name__ == "__main__":
    main()
