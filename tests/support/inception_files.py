"""Weight files of Inception with random weights, in the layouts of the published ones."""

import struct


def _varint(value):
    made = b""
    while value > 127:
        made += bytes([value & 127 | 128])
        value >>= 7
    return made + bytes([value])


def _bytes_field(number, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _number_field(number, value):
    return _varint(number << 3) + _varint(value)


def _node(name, op, **attributes):
    """A NodeDef; attributes are AttrValues."""
    entries = b"".join(_bytes_field(5, _bytes_field(1, key) + _bytes_field(2, value)) for key, value in attributes.items())
    return _bytes_field(1, _bytes_field(1, name) + _bytes_field(2, op) + entries)


def constant(name, shape, content=None, floats=None, dtype=1):
    """A node Const of a TensorProto, with its elements as bytes, or listed."""
    axes = b"".join(_bytes_field(2, _number_field(1, extent)) for extent in shape)
    tensor = _number_field(1, dtype) + _bytes_field(2, axes)
    tensor += _bytes_field(4, content) if floats is None else _bytes_field(5, struct.pack(f"<{len(floats)}f", *floats))
    return _node(name, "Const", dtype=_number_field(6, dtype), value=_bytes_field(8, tensor))


def norm(name, epsilon, scales):
    """A node of a batch normalisation."""
    return _node(name, "BatchNormWithGlobalNormalization", variance_epsilon=_varint(4 << 3 | 5) + struct.pack("<f", epsilon),
                 scale_after_normalization=_number_field(5, int(scales)))


def graph_names():
    """The scopes of the graph's convolutions, by PyTorch's names."""
    names = {name: f"conv_{i}" if i else "conv"
             for i, name in enumerate(("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"))}

    def block(name, scope, **parts):
        for part, place in parts.items():
            names[f"{name}.branch{part}"] = f"{scope}/{place}"

    def tower(number, *parts):
        scope = f"tower_{number}" if number else "tower"
        return {part: f"{scope}/conv_{i}" if i else f"{scope}/conv" for i, part in enumerate(parts)}

    def fork(number, *parts):
        return {part: f"tower_{number}/mixed/conv{end}" if number else f"tower/mixed/conv{end}" for part, end in zip(parts, ("", "_1"))}

    for i, name in enumerate(("Mixed_5b", "Mixed_5c", "Mixed_5d")):
        block(name, f"mixed_{i}" if i else "mixed", **{"1x1": "conv"}, **tower(0, "5x5_1", "5x5_2"),
              **tower(1, "3x3dbl_1", "3x3dbl_2", "3x3dbl_3"), **tower(2, "_pool"))
    block("Mixed_6a", "mixed_3", **{"3x3": "conv"}, **tower(0, "3x3dbl_1", "3x3dbl_2", "3x3dbl_3"))
    for i, name in enumerate(("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e")):
        block(name, f"mixed_{4 + i}", **{"1x1": "conv"}, **tower(0, "7x7_1", "7x7_2", "7x7_3"),
              **tower(1, "7x7dbl_1", "7x7dbl_2", "7x7dbl_3", "7x7dbl_4", "7x7dbl_5"), **tower(2, "_pool"))
    block("Mixed_7a", "mixed_8", **tower(0, "3x3_1", "3x3_2"), **tower(1, "7x7x3_1", "7x7x3_2", "7x7x3_3", "7x7x3_4"))
    for i, name in enumerate(("Mixed_7b", "Mixed_7c")):
        block(name, f"mixed_{9 + i}", **{"1x1": "conv"}, **tower(0, "3x3_1"), **fork(0, "3x3_2a", "3x3_2b"),
              **tower(1, "3x3dbl_1", "3x3dbl_2"), **fork(1, "3x3dbl_3a", "3x3dbl_3b"), **tower(2, "_pool"))
    return names


def graph_of(state, scales=True):
    """The bytes of a frozen graph with a state dict of PyTorch: constants and batch normalisations, as far as they tell the weights."""
    def array(name, values):
        return constant(name, values.shape, values.contiguous().numpy().tobytes())

    nodes = [constant("ResizeBilinear/size", [2], struct.pack("<2i", 299, 299), dtype=3), constant("Mul/y", [], floats=[0.0078125])]
    for name, scope in graph_names().items():
        bn = f"{scope}/batchnorm"
        nodes.append(array(f"{scope}/conv2d_params", state[f"{name}.conv.weight"].permute(2, 3, 1, 0)))
        for theirs, ours in {"beta": "bias", "gamma": "weight", "moving_mean": "running_mean", "moving_variance": "running_var"}.items():
            nodes.append(array(f"{bn}/{theirs}", state[f"{name}.bn.{ours}"]))
        nodes += [_node(f"{scope}/Conv2D", "Conv2D"), norm(bn, 0.001, scales), _node(scope, "Relu")]
    return b"".join([*nodes, array("softmax/weights", state["fc.weight"].t()), array("softmax/biases", state["fc.bias"])])
