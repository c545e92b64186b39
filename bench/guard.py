#!/usr/bin/env python3
"""Another build of penstock beside this one, in turns within one run: does a change cost speed?

    bench/guard.py --against OLD_BINARY --model MODEL --decoder DECODER --json guard.json

    guard.kernels_ratio     the whole model's kernels (penstock-lab kernels --model), least of the types; target 0.99
    guard.saturation_ratio  texts/s of a loaded server (penstock-lab saturation); target 0.99
    guard.lone_p50_ratio    p50 of one client's requests of one text (bench http); target at most 1.02

and with --decoder, each with target 0.99:

    guard.prefill_ratio     tokens/s of a prompt of 512 tokens (bench generate)
    guard.decode_ratio      tokens/s of one text, through the scheduler (bench chat)
    guard.streams_ratio     tokens/s of eight texts at once (bench chat)

Each is the median of the rounds' ratios, new over old; the order changes from round to round. Flags and
records are the same in every build. A program without a penstock-lab beside it, such as an older one, has its
experiments under `penstock bench`.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXPERIMENTS = ("kernels", "saturation")


def records(program, *args):
    """{name: value} of one benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "records.json"
        lab = pathlib.Path(program).with_name("penstock-lab")
        command = [lab] if args[0] in EXPERIMENTS and lab.exists() else [program, "bench"]
        done = subprocess.run([*command, *map(str, args), "--json", path], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{command[0]} {args[0]}: {done.stderr}")
        return {one["name"]: one["value"] for one in map(json.loads, path.read_text().splitlines())}


def measure(program, options):
    kernels = records(program, "kernels", "--model", options.model, "--name", "guard", "--rounds", options.kernel_rounds)
    saturation = records(program, "saturation", "--model", options.model, "--rounds", 1, "--round-s", options.seconds,
                         "--interactive-s", 0, "--no-float", "--server-flag=--preload")
    lone = records(program, "http", "--model", options.model, "--concurrency", 1, "--lengths", "fixed:12",
                   "--duration", options.seconds)
    found = {**kernels, "texts_per_s": saturation["http.texts_per_s"], "p50_ms": lone["http.p50_ms"]}
    return {**found, **measure_decoder(program, options)} if options.decoder else found


def measure_decoder(program, options):
    model = ("--model", options.decoder, "--name", "guard", "--rounds", options.decoder_rounds)
    prompt = records(program, "generate", *model, "--prompt", 512, "--depth", 0)
    chat = records(program, "chat", *model, "--prompt", 256)
    return {"prefill": prompt["generate.prefill512.guard.tokens_per_s"], "decode": chat["chat.one.tokens_per_s.guard"],
            "streams": chat["chat.streams8.tokens_per_s.guard"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "penstock"))
    parser.add_argument("--against", required=True, help="the other program")
    parser.add_argument("--model", required=True, help="an encoder: folder or hub reference")
    parser.add_argument("--decoder", help="a model that generates")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kernel-rounds", type=int, default=5)
    parser.add_argument("--decoder-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--json")
    options = parser.parse_args()
    ratios = {}
    for turn in range(options.rounds):
        sides = [("new", options.program), ("old", options.against)]
        found = {side: measure(program, options) for side, program in (sides if turn % 2 else sides[::-1])}
        for name, value in found["new"].items():
            if found["old"].get(name, 0) > 0:
                ratios.setdefault(name, []).append(value / found["old"][name])
        print(f"round {turn + 1} of {options.rounds}: " +
              ", ".join(f"{name} {values[-1]:.3f}" for name, values in sorted(ratios.items())), flush=True)
    medians = {name: statistics.median(values) for name, values in ratios.items()}
    result = {"guard.kernels_ratio": min(value for name, value in medians.items() if name.startswith("model.")),
              "guard.saturation_ratio": medians["texts_per_s"], "guard.lone_p50_ratio": medians["p50_ms"]}
    result |= {f"guard.{name}_ratio": medians[name] for name in ("prefill", "decode", "streams") if name in medians}
    for name, value in result.items():
        print(f"{name:24} {value:.3f}")
    if options.json:
        pathlib.Path(options.json).write_text("".join(
            json.dumps({"name": name, "value": round(value, 4), "unit": "1"}) + "\n" for name, value in result.items()))


if __name__ == "__main__":
    main()
