"""A golden case: a computation in PyTorch, run in float64 and in float32, and the file that records it in the form of
tests/golden/data/README.md."""

import json
import math
import struct

import torch

DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL", torch.bfloat16: "BF16"}
BALANCE_WEIGHT = 0.01
SMALLEST_GAP = 2e-4  # between the last selected gate and the first that is not: no rounding changes a choice


class Run:
    """A computation in one dtype: what it reads by name, and what it records."""

    def __init__(self, case, dtype):
        self.dtype, self.results, self.min_gap = dtype, {}, math.inf
        self.tensors = {name: self.cast(value) for name, value in case.tensors.items()}
        for name, value in self.tensors.items():
            if name.startswith("param.") and name not in case.frozen:
                value.requires_grad_()

    def cast(self, value):
        return value.detach().clone().to(self.dtype) if value.dtype.is_floating_point else value

    def __getitem__(self, name):
        return self.tensors[name]

    def param(self, name):
        return self.tensors["param." + name]

    def has(self, name):
        return "param." + name in self.tensors

    def record(self, name, value):
        self.results[name] = torch.as_tensor(value).detach().clone()

    def differentiable(self, name):
        """An input with a gradient."""
        return self.tensors[name].requires_grad_()

    def gradients(self, prefix, loss, names):
        """Records `prefix`.NAME for every tensor; of tensors that the loss does not depend on, zeros."""
        found = torch.autograd.grad(loss, [self.tensors[name] for name in names], retain_graph=True, allow_unused=True)
        for name, gradient in zip(names, found):
            self.record(f"{prefix}.{name}", torch.zeros_like(self.tensors[name]) if gradient is None else gradient)

    def parameters(self):
        return [name for name, value in self.tensors.items() if name.startswith("param.") and value.requires_grad]

    def test_loss(self, prefix, output, weights, balance, inputs=("in.x",), parameters=None):
        """The scalar test loss of outputs and the balance loss, None without routed heads; its gradients."""
        loss = (output * self[weights]).sum() + (0 if balance is None else BALANCE_WEIGHT * balance)
        self.record(prefix, loss)
        self.gradients("grad", loss, [*(self.parameters() if parameters is None else parameters), *inputs])


class Case:
    """`body` takes a Run. `tensors` are inputs "in.*", parameters "param.*" and weights of the loss "w.*"."""

    def __init__(self, kind, config, tensors, body, frozen=(), float64=()):
        self.kind, self.config, self.tensors, self.body = kind, config, tensors, body
        self.frozen, self.float64 = frozen, float64

    def run(self):
        """Results in float64, float32's errors, and the smallest gap."""
        exact, rounded = Run(self, torch.float64), Run(self, torch.float32)
        for run in (exact, rounded):
            self.body(run)
        errors = {name: (value.double() - rounded.results[name].double()).abs().max().item()
                  for name, value in exact.results.items() if value.dtype.is_floating_point and value.numel()}
        return exact.results, errors, exact.min_gap

    def write(self, path, with_kind=True):
        results, errors, gap = self.run()
        single = {name: value if name.startswith(tuple(self.float64)) and self.float64 else as_stored(value)
                  for name, value in results.items()}
        metadata = {"config": json.dumps(self.config), "min_gap": f"{gap:e}",
                    "float64_abs_error": json.dumps(errors)}
        if with_kind:
            metadata["kind"] = self.kind
        write_safetensors(path, {**{name: as_stored(value) for name, value in self.tensors.items()}, **single}, metadata)


def with_clear_choices(make, seed=1):
    """The first of the cases make(generator) whose gates leave no doubt about a choice."""
    for number in range(seed, seed + 200):
        case = make(torch.Generator().manual_seed(number))
        if case.run()[2] >= SMALLEST_GAP:
            return case
    raise RuntimeError("no seed leaves the gap that is needed")


def as_stored(value):
    return value.float() if value.dtype == torch.float64 else value


def write_safetensors(path, tensors, metadata):
    header, parts, offset = {"__metadata__": metadata}, [], 0
    for name, value in tensors.items():
        data = value.contiguous().view(torch.uint8).numpy().tobytes() if value.dim() else \
            value.reshape(1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def normal(generator, *shape, scale=1.0):
    """Random numbers that float32 holds exactly."""
    return (torch.randn(shape, generator=generator) * scale).double()


def matrix(generator, *shape):
    """Weights whose outputs are about as large as their inputs, [out, ...in]."""
    return normal(generator, *shape, scale=1 / math.sqrt(math.prod(shape[1:])))


def linear(generator, name, outputs, inputs, bias=True):
    weights = {f"param.{name}.weight": matrix(generator, outputs, inputs)}
    return {**weights, f"param.{name}.bias": normal(generator, outputs, scale=0.3)} if bias else weights


def norm(generator, name, width):
    return {f"param.{name}.weight": 1 + normal(generator, width, scale=0.2).float().double(),
            f"param.{name}.bias": normal(generator, width, scale=0.2)}
