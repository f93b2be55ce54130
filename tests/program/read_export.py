"""Reads a Hugging Face export with the safetensors package and prints the model's weights_sha256, made as model/weights/weights_hash.h says.

    read_export.py FOLDER

Fails when the index, the files and config.json do not agree.
"""
import hashlib
import json
import pathlib
import sys

import safetensors
from safetensors import safe_open

folder = pathlib.Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
index_file = folder / "model.safetensors.index.json"
if index_file.exists():
    index = json.loads(index_file.read_text())
    files = {}
    for name, file in index["weight_map"].items():
        files.setdefault(file, set()).add(name)
else:
    index = None
    files = {"model.safetensors": None}

lines, total = [], 0
for file, names in sorted(files.items()):
    with safe_open(folder / file, framework="np") as opened:
        keys = set(opened.keys())
        assert names is None or keys == names, f"{file} holds other tensors than the index says"
        assert opened.metadata() == {"format": "pt"}, opened.metadata()
    for name, tensor in safetensors.deserialize((folder / file).read_bytes()):
        assert name in keys
        shape = ",".join(map(str, tensor["shape"]))
        digest = hashlib.sha256(bytes(tensor["data"])).hexdigest()
        lines.append(f"{name} {tensor['dtype']} [{shape}] {digest}\n")
        total += len(tensor["data"])
if index is not None:
    assert index["metadata"]["total_size"] == total, index["metadata"]
embedding = next(line for line in lines if line.startswith("model.embed_tokens.weight "))
assert f"[{config['vocab_size']},{config['hidden_size']}]" in embedding, embedding
print(hashlib.sha256("".join(sorted(lines)).encode()).hexdigest())
