#!/usr/bin/env bash
# llama.cpp's server gives the n answers of seed s the seeds s, s + 1, s + 2.
#
# Guess: calls with n=3 and the seeds 1 and 2 give six different answers, and `usage` counts the tokens of all three
#   answers
# Truth: the second answer to seed 1 is the first answer to seed 2, so the two calls share two of three answers.
#   `usage` counts the tokens of one answer. Texts asked for with seeds that follow one another are copies of one
#   another
# Packages: xllamacpp==2026.10.11549, gguf==0.19.0, numpy==2.4.6, httpx==0.28.1; Python 3.11. the model has random
#   weights, which the script makes
# Date: 2026-11-29
# Source: llama.cpp, tools/server: one child task per answer with the next seed
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  xllamacpp==2026.10.11549 gguf==0.19.0 numpy==2.4.6 httpx==0.28.1
cd "$folder"

cat > expected <<'END'
different answers of four seeds: 4
n=3 of seed 1 is seeds 1, 2, 3: True
n=3 of seed 2 is seeds 2, 3, 4: True
usage counts three answers as one: True
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


alone = [texts(seed=seed, max_tokens=12)[0] for seed in (1, 2, 3, 4)]
print("different answers of four seeds:", len(set(alone)))
print("n=3 of seed 1 is seeds 1, 2, 3:", texts(seed=1, n=3, max_tokens=12) == alone[:3])
print("n=3 of seed 2 is seeds 2, 3, 4:", texts(seed=2, n=3, max_tokens=12) == alone[1:])
one, three = (ask(seed=1, n=n, max_tokens=5)["usage"]["completion_tokens"] for n in (1, 3))
print("usage counts three answers as one:", one == three)
END

diff expected seen
echo "llama-server-n-and-seeds: as described"
