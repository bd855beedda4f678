#!/usr/bin/env bash
# With dynamic int8 in onnxruntime, a text's vector depends on the other texts of its batch.
#
# Guess: the rows of a batch are independent, so a row alone and in a batch of equal lengths has the same vector
# Truth: the scale of the activations is computed over the whole batch. Beside one row of 50 times its length, a
#   vector keeps a cosine of 0.98 to itself. In float32 the vectors are equal to the bit. So one record can move the
#   votes of others
# Packages: onnxruntime==1.31.1, onnx==1.23.2, numpy==2.4.6; Python 3.11
# Date: 2026-11-29
# Source: onnxruntime, `quantize_dynamic`; ONNX operator DynamicQuantizeLinear: one scale per tensor. torch's
#   quantize_dynamic does the same
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  onnxruntime==1.31.1 onnx==1.23.2 numpy==2.4.6
cd "$folder"

cat > expected <<'END'
float32.onnx equal bits: True cosine above 0.995: True
int8.onnx equal bits: False cosine above 0.995: False
END

venv/bin/python - > seen <<'END'
import logging

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

logging.disable(logging.CRITICAL)
rng, wide = np.random.default_rng(0), 64
weights = {
    "first": (rng.standard_normal((wide, 4 * wide)) * 0.1).astype(np.float32),
    "second": (rng.standard_normal((4 * wide, wide)) * 0.1).astype(np.float32),
}
graph = helper.make_graph(
    [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["y"]),
    ],
    "two_layers",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", wide])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", wide])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(model, "float32.onnx")
quantize_dynamic("float32.onnx", "int8.onnx", weight_type=QuantType.QInt8)


def vector(file, rows):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": rows})[0][0]


alone = rng.standard_normal((1, wide)).astype(np.float32)
other = 50 * rng.standard_normal((1, wide)).astype(np.float32)
for file in ("float32.onnx", "int8.onnx"):
    a, b = vector(file, alone), vector(file, np.concatenate([alone, other]))
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    print(file, "equal bits:", np.array_equal(a, b), "cosine above 0.995:", bool(cosine > 0.995))
END

diff expected seen
echo "onnxruntime-int8-depends-on-batch: as described"
