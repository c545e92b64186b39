"""Tables, chart and records of a run."""
import json
import platform

import cases
import kl
import machine
import peers

PACKAGES = ["llama-cpp-python", "openvino", "openvino-genai"]
KL_LABELS = {"llama_cpp": "llama.cpp, one pass over the prompt", "llama_cpp_decode": "llama.cpp, token by token",
             "llama_cpp_stored": "llama.cpp, one pass, weights as stored"}


def record_name(run):
    """decode.q8_0; of the model that is not of the 1.1B shape: decode4096.qwen3_q8_0."""
    return f"generate.{run.case.name}.{run.case.model}"


def ratios(run):
    """{peer: ours over theirs}"""
    ours = run.figure("penstock")
    theirs = {peer: run.figure(peer) for peer in peers.PEERS if peer != "penstock"}
    return {peer: ours / rate for peer, rate in theirs.items() if ours and rate}


def records(runs, distances):
    out = []

    def add(name, value, unit):
        out.append({"name": name, "value": round(value, 4), "unit": unit})

    for run in runs:
        for peer, ratio in ratios(run).items():
            add(f"{record_name(run)}.ratio_vs_{peer}", ratio, "ratio")
        for peer in run.rates:
            add(f"{record_name(run)}.{peer}.tokens_per_s", run.figure(peer), "1/s")
        if run.case.model == "smollm2" and run.case.kind == "decode" and run.figure("penstock"):
            add("generate.smollm2.tokens_per_s", run.figure("penstock"), "1/s")
    return out + kl.records(distances)


def model_section(name, runs):
    some = [run for run in runs if run.case.model == name]
    if not some:
        return []
    lines = [f"## {name}", "", f"{cases.ABOUT[name][0].upper() + cases.ABOUT[name][1:]}. Tokens a second.", "",
             "| | " + " | ".join(run.case.label for run in some) + " |", "|---" * (1 + len(some)) + "|"]
    for peer in some[0].args.peers:
        cells = []
        for run in some:
            rate = run.figure(peer)
            way = f" ({run.ways[peer]})" if peer in run.ways and peer != "penstock" else ""
            cells.append(f"{rate:.1f}{way}" if rate else run.reasons.get(peer, ""))
        lines.append(f"| {peers.LABELS[peer]} | " + " | ".join(cells) + " |")
    found = [ratios(run) for run in some]
    for peer in some[0].args.peers:
        if any(peer in one for one in found):
            lines.append(f"| Penstock over {peers.LABELS[peer]} | "
                         + " | ".join(f"**{one[peer]:.2f}**" if peer in one else "" for one in found) + " |")
    failed = sorted({f"{peers.LABELS[peer]}, {way}: {reason}." for run in some for peer in run.rates
                     for way, reason in run.failed.get(peer, {}).items()})
    return lines + ["", *(["Ways that failed: " + " ".join(failed), ""] if failed else [])]


def distance_section(distances, file):
    if not distances:
        return []
    lines = ["## Next tokens beside f32", "",
             f"{file.name}, {kl.TOKENS} tokens of English: mean KL of the next token's probabilities to those of the same "
             "weights in f32 (numpy). Less is nearer.", "", "| | mean KL |", "|---|---|"]
    for name, value in distances.items():
        lines.append(f"| {KL_LABELS.get(name, f'**Penstock** {name}')} | {value:.2e} |")
    return lines + [""]


def chart(runs, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: a small file
    matplotlib.rcParams["svg.hashsalt"] = "peers-generate"
    from matplotlib import pyplot
    shown = [run for run in runs if run.rates]
    if not shown:
        return
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(6.2 * columns, 1.9 * rows), squeeze=False)
    for axis in axes.flat[len(shown):]:
        axis.axis("off")
    for axis, run in zip(axes.flat, shown):
        bars = [(peers.LABELS[peer].strip("*"), run.figure(peer)) for peer in reversed(peers.PEERS) if peer in run.rates]
        drawn = axis.barh([label for label, _ in bars], [rate for _, rate in bars],
                          color=["#c08552" if label == "Penstock" else "#8da0b6" for label, _ in bars])
        axis.bar_label(drawn, fmt="%.3g", fontsize=7, padding=3)
        axis.tick_params(labelsize=7)
        axis.margins(x=0.12)
        axis.set_title(f"{run.case.model}, {run.case.label} (tokens/s)", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def command(args):
    given = []
    if args.quick:
        given.append("--quick")
    if args.models != list(cases.ABOUT):
        given += ["--models", *args.models]
    if args.peers != peers.PEERS:
        given += ["--peers", *args.peers]
    return "make bench-generate-peers" + (f' PEERS_FLAGS="{" ".join(given)}"' if given else "")


def write(runs, distances, args):
    lines = ["# Text generation beside other runtimes", "",
             f"`{command(args)}`: {args.threads} threads each; {machine.processor()}; Python "
             f"{platform.python_version()}.", "", ", ".join(machine.versions(PACKAGES)) + ".", ""]
    if args.quick:
        lines += ["**A trial run with tiny models: its figures mean nothing.**", ""]
    lines += ["Same file, same prompt, chosen greedily, one sequence, one process a measurement, in turns; the best of "
              f"{args.rounds} turns. In brackets the way that was fastest on a trial. How is said in "
              "`docs/BENCHMARKS.md`.", "", "![Rates](images/peers-generate.svg)", ""]
    for name in cases.ABOUT:
        lines += model_section(name, runs)
    lines += distance_section(distances, args.model)
    args.docs.mkdir(parents=True, exist_ok=True)
    (args.docs / "peers-generate.md").write_text("\n".join(lines).rstrip() + "\n")
    chart(runs, args.docs / "images/peers-generate.svg")
    if args.json:
        args.json.write_text("".join(json.dumps(one) + "\n" for one in records(runs, distances)))
    print("\n".join(lines))
    print(f"wrote {args.docs / 'peers-generate.md'} and {args.docs / 'images/peers-generate.svg'}")
