"""Rewrites a GGUF file, so that OpenVINO GenAI reads the weights that the file means.

OpenVINO rounds the zero points of 4-bit weights to integers, and refuses other types of weights.
It reads 16-bit numbers exactly. Each weight is unpacked and rounded to 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers.integrations.gguf import GgufHeader, read_gguf_metadata

from sugarbush.generators.huggingface.folder_weights import ARCHITECTURES

# Settings of an architecture, and a tensor, that OpenVINO ignores
_IGNORED = ("rope.scaling.factor", "rope.scaling.type", "attention.sliding_window", "expert_count")
_ROPE_FACTORS = "rope_freqs.weight"


def unreadable(path: Path) -> str:
    """Return why OpenVINO cannot run a GGUF file, or an empty string.

    Raises ValueError or OSError if no program can read the file.
    """
    metadata, tensors = read_gguf_metadata(str(path))
    architecture = metadata["general.architecture"]
    if architecture not in ARCHITECTURES:
        return f"it runs the architectures {', '.join(ARCHITECTURES)}, not {architecture}"
    found = [name for name in _IGNORED if f"{architecture}.{name}" in metadata]
    found += [name for name in (_ROPE_FACTORS,) if name in tensors]
    return f"it ignores {found[0]}" if found else ""


def write_readable(path: Path, to: Path) -> None:
    """Write the model in the GGUF file `path` to the GGUF file `to`, without its tokenizer.

    Raises ValueError if a weight has no 16-bit number, or NotImplementedError for a type of weights
    that the package gguf cannot unpack.
    """
    import gguf  # in the extra gguf

    metadata, _ = read_gguf_metadata(str(path))
    architecture = metadata["general.architecture"]
    writer = gguf.GGUFWriter(str(to), architecture)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for name, value in metadata.items():
        if not name.startswith(f"{architecture}."):
            continue
        if isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, int) and not isinstance(value, bool):
            writer.add_uint32(name, value)
    for name, shape, kind, raw in _weights(path):
        values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(kind)).reshape(shape)
        if len(shape) > 1:
            values = values.astype(np.float16)
        if not np.isfinite(values).all():
            raise ValueError(f"a weight of {name} is too large")
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(path: Path) -> Iterator[tuple[str, tuple[int, ...], int, NDArray[Any]]]:
    """Yield the name, the shape, the type and the packed rows of each tensor."""
    import gguf

    try:
        header = GgufHeader.from_file(str(path))
    except ValueError:  # an older type, such as Q5_0; this reader takes six seconds longer
        for each in gguf.GGUFReader(path).tensors:
            shape = tuple(reversed(each.shape.tolist()))
            yield each.name, shape, int(each.tensor_type), each.data
        return
    blob = np.memmap(path, mode="r", dtype=np.uint8)
    for tensor in header.tensors:
        start = header.data_start + tensor.offset
        raw = np.array(blob[start : start + tensor.nbytes]).reshape(tensor.shape[0], -1)
        yield tensor.name, tensor.shape, tensor.ggml_type, raw
