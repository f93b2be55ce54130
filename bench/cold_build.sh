#!/usr/bin/env bash
# CPU time (user + sys) of the first `./weft version` of two commits, from nothing and without ccache: one after the other,
# so that both meet the same machine. Other load makes both figures larger; the ratio stays.
#
#   bench/cold_build.sh [BASE] [COMMIT]     BASE is 95c5256, COMMIT is HEAD
#
# WEFT_BENCH_TMP is where the two clones go (default: a temporary folder); they are removed at the end.
set -euo pipefail

root=$(git -C "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" rev-parse --show-toplevel)
base=${1:-95c5256}
commit=${2:-HEAD}
scratch=$(mktemp -d -p "${WEFT_BENCH_TMP:-${TMPDIR:-/tmp}}" weft_cold_build.XXXXXX)
trap 'rm -rf -- "$scratch"' EXIT

export CCACHE_DISABLE=1 WEFT_NO_INSTALL=1 WEFT_PRESET=release
TIMEFORMAT='%U %S'

cpu_seconds() { # COMMIT: clones it, builds it, says what that took; ninja's and the compilers' words go to a file
  local tree="$scratch/tree" user sys
  git clone -q --shared --no-checkout "$root" "$tree"
  git -C "$tree" -c advice.detachedHead=false checkout -q "$(git -C "$root" rev-parse "$1")"
  read -r user sys < <({ time "$tree/weft" version >"$scratch/words" 2>&1; } 2>&1) || true
  if [[ ! -x $tree/build/release/weft ]]; then
    tail -n 20 "$scratch/words" >&2
    printf 'cold_build: %s does not build\n' "$1" >&2
    exit 1
  fi
  rm -rf -- "$tree"
  awk -v u="$user" -v s="$sys" 'BEGIN { printf "%.1f\n", u + s }'
}

before=$(cpu_seconds "$base")
printf '%-10s %8.1f s of CPU time\n' "$(git -C "$root" rev-parse --short "$base")" "$before"
after=$(cpu_seconds "$commit")
printf '%-10s %8.1f s of CPU time\n' "$(git -C "$root" rev-parse --short "$commit")" "$after"
awk -v a="$after" -v b="$before" 'BEGIN { printf "ratio      %8.2f\n", a / b }'
