#!/usr/bin/env bash
# Exports are read by the safetensors package from PyPI, in an environment of its own, and hold the weights of the run.
#
#   python_reads_exports.sh WEFT SCRATCH        exit 77: the package cannot be had here
set -euo pipefail
weft=$1 scratch=$2 here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
rm -rf "$scratch"
mkdir -p "$scratch"
if ! { python3 -m venv "$scratch/env" && "$scratch/env/bin/pip" install -q --disable-pip-version-check safetensors numpy; } >"$scratch/pip.log" 2>&1; then
  echo "skipped: python3 -m venv and pip install safetensors numpy do not work here: $(tail -n 1 "$scratch/pip.log")"
  exit 77
fi

for dtype in float32 bfloat16; do
  for tied in true false; do
    run="$scratch/$dtype-$tied"
    "$weft" train --config "$here/tiny.yaml" --transport inproc --run-dir "$run" --set model.dtype=$dtype \
      --set model.model_config.tie_word_embeddings=$tied >"$run.log" 2>&1 || { cat "$run.log"; exit 1; }
    "$weft" convert weft-to-hf "$run/checkpoints" "$run/hf"
    want=$("$weft" checkpoint hash "$run/checkpoints" | tail -n 1)
    got=$("$scratch/env/bin/python" "$here/read_export.py" "$run/hf")
    echo "$dtype tied=$tied $got"
    [[ $got == "$want" ]] || { echo "weft says $want"; exit 1; }
  done
done
