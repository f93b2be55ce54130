#!/usr/bin/env bash
# One training that is killed KILLS times, a random rank or the launcher at a random moment, and resumed each time with
# another schedule, number of ranks and transport. It must end with the weights of the undisturbed run.
#
#   chaos.sh WEFT KILLS [SEED]        (prints the seed, so that a failure can be done again)
set -euo pipefail
weft=$1 kills=$2 seed=${3:-$(date +%N)} here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
RANDOM=$((10#$seed % 32768))
folder=$(mktemp -d "${TMPDIR:-/tmp}/weft_chaos_XXXXXX")
trap 'rm -rf "$folder"' EXIT
echo "seed $seed"

steps=$((100 * kills)) # more than can be done before the last kill
model=(hidden_size=32 intermediate_size=64 num_attention_heads=4 num_key_value_heads=2)
keys=(general.run=chaos "${model[@]/#/model.model_config.}" tokens.sequence_length=32 tokens.train_steps="$steps"
  'optimizer.learning_rate_scheduler={learning_rate: 0.003, lr_warmup_steps: 20, lr_warmup_style: linear, lr_decay_style: cosine, min_decay_lr: 0.0003}'
  'checkpoints={checkpoint_interval: 7, keep_last: 3}')

train() { # RUN ARGUMENTS...
  local run=$1
  shift
  exec "$weft" train --config "$here/tiny.yaml" --run-dir "$folder/$run" "${keys[@]/#/--set=}" "$@" >"$folder/$run.log" 2>&1
}
members() { # every process of the disturbed run; ranks only with an argument
  local pid
  for pid in $(pgrep -f -- "--run-dir $folder/disturbed " || true); do
    if [[ -z ${1:-} ]] || tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -q '^WEFT_RANK='; then echo "$pid"; fi
  done
}
hash_of() { "$weft" checkpoint hash "$folder/$1/checkpoints" | tail -n 1; }

(train undisturbed --transport inproc) || { tail "$folder/undisturbed.log"; exit 1; }
want=$(hash_of undisturbed)

layouts=("1 1f1b ucx" "2 zbv ucx" "4 1f1b ucx" "2 interleaved_1f1b inproc" "4 zb_h1 ucx" "2 afab ucx" "4 ready_first ucx")
done_kills=0
for ((attempt = 0; done_kills < kills && attempt < 10 * kills; ++attempt)); do
  read -r pp schedule transport <<<"${layouts[RANDOM % ${#layouts[@]}]}"
  (train disturbed --set parallelism.pp="$pp" --pipeline_parallel_schedule "$schedule" --transport "$transport" --resume auto) &
  launcher=$!
  sleep "0.$((RANDOM % 900 + 100))"
  mapfile -t candidates < <(members ranks)
  ((RANDOM % 5 > 0 && ${#candidates[@]} > 0)) || candidates=("$launcher")
  victim=${candidates[RANDOM % ${#candidates[@]}]}
  if kill -9 "$victim" 2>/dev/null; then done_kills=$((done_kills + 1)); fi
  wait "$launcher" 2>/dev/null && status=0 || status=$?
  for ((look = 0; look < 200; ++look)); do # ranks without a launcher end within a second
    [[ -n $(members) ]] || break
    sleep 0.05
  done
  if [[ -n $(members) ]]; then
    echo "left over after kill $done_kills ($pp $schedule $transport): $(members | tr '\n' ' ')"
    exit 1
  fi
  [[ $status != 0 ]] || break # it had ended before
done
(train disturbed --set parallelism.pp=2 --resume auto) || { tail "$folder/disturbed.log"; exit 1; }
got=$(hash_of disturbed)
lines=$(grep -c '"step":' "$folder/disturbed/metrics.jsonl")
[[ $done_kills == "$kills" ]] || { echo "it ended after $done_kills kills already"; exit 1; }
echo "$done_kills kills, $lines step lines, weights $got"
[[ $got == "$want" ]] || { echo "undisturbed: $want"; exit 1; }
[[ $lines == "$steps" ]] || { echo "a step is missing or stands twice in metrics.jsonl"; exit 1; }
