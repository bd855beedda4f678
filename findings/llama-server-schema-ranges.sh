#!/usr/bin/env bash
# llama.cpp's server obeys the range of an integer and ignores the range of a number.
#
# Guess: with `response_format: json_schema`, an answer either obeys the schema, or the call is refused
# Truth: minimum and maximum hold for `integer`. For `number` they are ignored, and so are multipleOf and
#   uniqueItems, without a message. So an answer to a schema can break it: check each answer
# Packages: xllamacpp==2026.10.11549, gguf==0.19.0, numpy==2.4.6, httpx==0.28.1; Python 3.11. the model has random
#   weights, which the script makes
# Date: 2026-11-29
# Source: llama.cpp, common/json-schema-to-grammar: keywords that the grammar does not have are left out
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  xllamacpp==2026.10.11549 gguf==0.19.0 numpy==2.4.6 httpx==0.28.1
cd "$folder"

cat > expected <<'END'
integers within 0 and 3: True
numbers within 0 and 3: False
multiples of 5: False
unique items: False
END

venv/bin/python - > seen <<'END'
import json

import gguf
import numpy as np
import httpx
import xllamacpp

WIDTH, HEADS, INNER = 64, 4, 128
writer = gguf.GGUFWriter("random.gguf", "llama")
writer.add_context_length(256)
writer.add_embedding_length(WIDTH)
writer.add_block_count(1)
writer.add_feed_forward_length(INNER)
writer.add_head_count(HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH // HEADS)
tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
letters = 'abcdefghijklmnopqrstuvwxyz .0123456789"{}[]:,-'
tokens += [letter.replace(" ", "\u2581").encode() for letter in letters]
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * len(tokens))
writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(letters))
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
rng = np.random.default_rng(0)


def matrix(name, *shape, scale=0.2):
    writer.add_tensor(name, (rng.standard_normal(shape) * scale).astype(np.float32))


matrix("token_embd.weight", len(tokens), WIDTH, scale=1)
output = rng.standard_normal((len(tokens), WIDTH)).astype(np.float32) * 0.3
output[:259] *= 0.05  # bytes and control tokens are rare
writer.add_tensor("output.weight", output)
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
    matrix(f"blk.0.{name}.weight", WIDTH, WIDTH)
for name, shape in (("gate", (INNER, WIDTH)), ("up", (INNER, WIDTH)), ("down", (WIDTH, INNER))):
    matrix(f"blk.0.ffn_{name}.weight", *shape)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.warmup = "random.gguf", 1024, 4, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)


def ask(**settings):
    body = {"messages": [{"role": "user", "content": "hello"}], "seed": 1, **settings}
    return httpx.post(f"{server.listening_address}/v1/chat/completions", json=body, timeout=60).json()


def texts(**settings):
    return [choice["message"]["content"] for choice in ask(**settings)["choices"]]


def values(schema):
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": whole}}
    answers = [texts(seed=seed, max_tokens=80, response_format=form)[0] for seed in range(1, 41)]
    found = []
    for answer in answers:
        try:
            found.append(json.loads(answer)["v"])
        except ValueError:  # cut at max_tokens
            continue
    return found




integers = values({"type": "integer", "minimum": 0, "maximum": 3})
print("integers within 0 and 3:", all(0 <= value <= 3 for value in integers))
numbers = values({"type": "number", "minimum": 0, "maximum": 3})
print("numbers within 0 and 3:", all(0 <= value <= 3 for value in numbers))
fives = values({"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 5})
print("multiples of 5:", all(value % 5 == 0 for value in fives))
pair = {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
print("unique items:", all(len(set(value)) == 2 for value in values(pair)))
END

diff expected seen
echo "llama-server-schema-ranges: as described"
