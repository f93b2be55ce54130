"""Every schedule on the model of configs/bench_llama.yaml: predicted and measured step time, bubble and memory, as a table.

    python3 bench/schedules.py [--pp 2] [--rounds 3] [--schedules 1f1b,zb_h1] [--set KEY=VALUE ...]

Needs nothing but Python. The schedules take turns, so that a noisy minute hits all of them. `predicted` is `weft plan --costs-from`:
the simulator with the op times of a run's own trace where every rank has a core; with more ranks than cores, with the op times of 1F1B on as
many ranks as there are cores, shared out (`--cores`). Figures are medians over all steps but the first of each run.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT = ROOT / "weft"
ALL = "afab 1f1b interleaved_1f1b looped_bfs zb_h1 zb_h2 zbv dualpipe_v v_half v_min ready_first".split()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pp", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="of each run")
    parser.add_argument("--schedules", default=",".join(ALL))
    parser.add_argument("--set", action="append", default=[])
    return parser.parse_args()


def weft(*words):
    done = subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"weft {' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def model(schedule, pp, given):
    words = ["--config", ROOT / "configs/bench_llama.yaml", "--pipeline_parallel_schedule", schedule, "--set", f"parallelism.pp={pp}"]
    for one in given.set:
        words += ["--set", one]
    return words


def train(schedule, pp, given, folder):
    """One run: its step lines without the first one, and its trace."""
    folder.mkdir()
    trace = folder / "trace.json"
    weft("train", *model(schedule, pp, given), "--run-dir", folder / "run", "--trace", trace, "--set", f"tokens.train_steps={given.steps}",
         "--set", "checkpoints.save_final_state=false")
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return lines[1:], trace


def plan(schedule, pp, given, *more):
    return json.loads(weft("plan", *model(schedule, pp, given), "--format", "json", *more))


def as_run(plan):
    return plan.get("as_run", plan)


def main():
    given = arguments()
    cores = len(os.sched_getaffinity(0))
    shared = given.pp > cores
    names = given.schedules.split(",")
    steps = {name: [] for name in names}  # (measured ms, predicted ms, step line, prediction)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for round in range(given.rounds):
            base = train("1f1b", cores, given, scratch / f"base{round}")[1] if shared else None
            for name in names:
                lines, trace = train(name, given.pp, given, scratch / f"{name}{round}")
                costs = ["--costs-from", base, "--cores", cores] if shared else ["--costs-from", trace]
                predicted = as_run(plan(name, given.pp, given, *costs))
                steps[name] += [(line["step_ms"], predicted["makespan"], line, predicted) for line in lines]
    print(f"{given.pp} ranks on {cores} cores, {sum(len(s) for s in steps.values())} steps\n")
    print("| schedule | step, predicted | measured | ratio | bubble, predicted | measured | in flight | activations, planned = measured | memory planned, fullest rank |")
    print("|---|---|---|---|---|---|---|---|---|")
    medians = {}
    for name in names:
        planned = plan(name, given.pp, given)
        rank_bytes = [sum(column[rank] for column in planned["memory"].values()) for rank in range(given.pp)]
        measured = statistics.median(s[0] for s in steps[name])
        predicted = statistics.median(s[1] for s in steps[name])
        ratio = statistics.median(s[0] / s[1] for s in steps[name])
        medians[name] = (predicted, measured)
        bubble = statistics.median(statistics.mean(s[2]["bubble"]) for s in steps[name])
        bubble_predicted = statistics.median(statistics.mean(r["bubble"] for r in s[3]["ranks"]) for s in steps[name])
        last = steps[name][-1][2]
        held = last["peak_activation_bytes"]
        as_planned = planned.get("peak_activation_bytes", held)  # a dynamic order has no exact one, only slots
        activations = f"{max(held) / 1e6:.0f} MB" + ("" if held == as_planned else f", PLANNED {max(as_planned) / 1e6:.0f} MB")
        print(f"| `{name}` | {predicted:.0f} ms | {measured:.0f} ms | {ratio:.3f} | {bubble_predicted * 100:.1f} % | {bubble * 100:.1f} % | "
              f"{max(last['peak_in_flight'])} | {activations} | {max(rank_bytes) / 1e6:.0f} MB |", flush=True)
    if "1f1b" in medians:
        print("\nTime saved over 1F1B, predicted and measured, and the share of a gain that is realised:")
        for name in names:
            gain = [1 - medians[name][i] / medians["1f1b"][i] for i in (0, 1)]
            share = f": {gain[1] / gain[0] * 100:.0f} %" if gain[0] > 0.005 else ""
            if name != "1f1b":
                print(f"- `{name}`: {gain[0] * 100:.1f} %, {gain[1] * 100:.1f} %{share}")


if __name__ == "__main__":
    main()
