"""Tables, chart and records of a run."""
import json
import platform
import sys

import numpy as np

import machine
from contenders import COSINE_MIN, DTYPES
from labels import ABOUT, WORKLOADS

PACKAGES = ["onnxruntime", "openvino", "nncf", "ctranslate2", "llama-cpp-python", "torch", "transformers",
            "sentence-transformers"]
AGAINST = {"f32": ["f32"], "bf16": ["f32", "bf16"], "int8": ["int8"]}


def versions(args):
    out = machine.versions(PACKAGES)
    for path in (args.cache.parent / "infinity-venv").glob("lib/*/site-packages/infinity_emb-*.dist-info"):
        out.append("infinity-emb " + path.name.split("-")[1].removesuffix(".dist"))
    return ", ".join(out)


def round_figures(run, contender, workload):
    """The p50 of each round in ms (a), or its texts/s."""
    values = contender.values.get(workload, [])
    if workload != "a":
        return [run.counts[workload] / seconds for seconds in values]
    count = run.counts["a"]
    return [float(np.median(values[i:i + count])) * 1e3 for i in range(0, len(values), count)]


def figure(run, contender, workload):
    """The median of round_figures, or None if the contender ran no round."""
    rounds = round_figures(run, contender, workload)
    return float(np.median(rounds)) if rounds else None


def trusted(run, contender):
    """Whether its vectors are those of the model. Only real weights can tell."""
    agreement = contender.agreement.get("b")
    return run.name != "minilm" or agreement is None or agreement[1] >= COSINE_MIN


def ratio(run, ours, peer, workload):
    """The median over rounds of ours over the peer's in the same round, so that a machine whose speed
    changes between rounds favours no program. None where either is missing."""
    pairs = zip(round_figures(run, ours, workload), round_figures(run, peer, workload))
    found = [a / b for a, b in pairs]
    return float(np.median(found)) if found else None


def ratios(run):
    """{(workload, dtype): (ours over the best peer's, contender)}"""
    out = {}
    for workload in WORKLOADS:
        for ours in run.contenders:
            if ours.peer != "penstock":
                continue
            found = [(ratio(run, ours, c, workload), c) for c in run.contenders
                     if c.peer != "penstock" and c.dtype in AGAINST[ours.dtype] and trusted(run, c)]
            found = [f for f in found if f[0] is not None]
            if found:
                # The peer that does best against ours: a is a time, the others are rates.
                pick = max if workload == "a" else min
                out[workload, ours.dtype] = pick(found, key=lambda f: f[0])
    return out


def agreement(contender):
    cells = []
    for workload in ("b", "c"):
        value = contender.agreement.get(workload)
        cells.append("" if value is None else f"{value[0]:.4f}" if len(value) == 1 else
                     f"{value[1]:.5f} / {value[0]:.5f}")
    return cells


def row(run, c):
    kind = "Q8_0" if (c.peer, c.dtype) == ("llama_cpp", "int8") else c.dtype
    if not c.values and c.reason:
        return f"| {c.label} | {kind} | {c.reason} |" + " |" * 6
    cells = []
    a = c.values.get("a")
    cells.append(f"{np.percentile(a, 50) * 1e3:.2f} / {np.percentile(a, 99) * 1e3:.2f}" if a else "")
    for workload in ("b", "c", "d"):
        value = figure(run, c, workload)
        cells.append("" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}")
    ways = "; ".join(f"{w}: {v}" + (f", {b}" if w != "a" else "") for w, (v, b) in sorted(c.way.items())
                     if w in ("a", "b"))
    note = ways + (f" ({c.reason})" if c.reason else "") + ("" if trusted(run, c) else " **not counted**")
    return f"| {c.label} | {kind} | " + " | ".join([*cells, *agreement(c), note]) + " |"


def model_section(run):
    counts = run.counts
    lines = [f"## {run.name}", "", f"{ABOUT[run.name][0].upper() + ABOUT[run.name][1:]}. Rounds: {run.rounds}. Tokens in texts of "
             f"a round: b {counts['b']} texts, {run.tokens['b']} tokens; c {counts['c']} pairs, {run.tokens['c']}; "
             f"d {counts['d']} texts, {run.tokens['d']}; a {counts['a']} queries a round.", "",
             "| | type | a: ms p50 / p99 | b: texts/s | c: pairs/s | d: texts/s | cosine mean / min | scores' correlation | way |",
             "|---|---|---|---|---|---|---|---|---|"]
    for dtype in DTYPES:
        lines += [row(run, c) for c in run.contenders if c.dtype == dtype]
    failed = [f"{c.label} {c.dtype}, {way}: {reason}." for c in run.contenders
              for way, reason in c.failed_ways.items() if not c.reason]
    if failed:
        lines += ["", "Ways that failed and were passed over: " + " ".join(failed)]
    lines += ["", "Penstock over the best peer, medians of the rounds' ratios (a: time, lower is better; others: rate):", "",
              "| | " + " | ".join(WORKLOADS) + " |", "|---" * 5 + "|"]
    found = ratios(run)
    for dtype in DTYPES:
        cells = [f"**{found[w, dtype][0]:.2f}** ({found[w, dtype][1].label} {found[w, dtype][1].dtype})"
                 if (w, dtype) in found else "" for w in WORKLOADS]
        if any(cells):
            lines.append(f"| {dtype} | " + " | ".join(cells) + " |")
    return lines + [""]


def best_server(servers, field, pick):
    found = [(pick(getattr(s, field)), s) for s in servers if "penstock" not in s.name and getattr(s, field)]
    return pick(found, key=lambda f: f[0]) if found else None


def server_section(run):
    if not run.servers:
        return []
    lines = [f"## Servers over HTTP: {run.name}", "",
             "The texts of (b), 8 clients with 8 texts a request; and single queries of (a) one after another. Client "
             "and server share the processors. Resident memory with the model loaded, and after the load.", "",
             "| | type | b: texts/s | a: ms p50 / p99 | MB loaded / after | MB of weights in memory |",
             "|---|---|---|---|---|---|"]
    for s in run.servers:
        if s.reason and not s.texts_per_s:
            lines.append(f"| {s.name} | {s.dtype} | {s.reason} | | | |")
            continue
        latency = f"{min(s.p50_ms):.2f} / {min(s.p99_ms):.2f}" if s.p50_ms else s.reason
        memory = f"{s.rss_start:.0f} / {s.rss_end:.0f}" if s.rss_end else ""
        lines.append(f"| {s.name} | {s.dtype} | {max(s.texts_per_s):.1f} | {latency} | {memory} | "
                     + (f"{s.weights:.0f} |" if s.weights else "|"))
    return lines + [""]


def scaling_section(run, threads):
    if not run.scaling:
        return []
    text = ", ".join(f"{dtype} {value:.2f}" for dtype, value in run.scaling.items())
    return [f"Penstock on (b), rate of {threads} threads over that of one: {text}.", ""]


def records(runs):
    out = []

    def add(name, value, unit):
        out.append({"name": name, "value": round(value, 4), "unit": unit})

    for run in runs:
        prefix = "peers." if run.name == "minilm" else f"peers.{run.name}."
        for (workload, dtype), (ratio, _) in ratios(run).items():
            add(f"{prefix}{workload}.{dtype}.ratio_vs_best", ratio, "ratio")
        for c in run.contenders:
            for workload in WORKLOADS:
                value = figure(run, c, workload)
                if value is not None:
                    unit = "p50_ms" if workload == "a" else "texts_per_s"
                    add(f"{prefix}{workload}.{c.dtype}.{c.peer}.{unit}", value, "ms" if workload == "a" else "1/s")
            if len(c.agreement.get("b", ())) == 2:
                add(f"{prefix}b.{c.dtype}.{c.peer}.cosine_mean", c.agreement["b"][1], "1")
                add(f"{prefix}b.{c.dtype}.{c.peer}.cosine_min", c.agreement["b"][0], "1")
        for dtype, value in run.scaling.items():
            add(f"{prefix}b.{dtype}.thread_scaling", value, "ratio")
        best = {"b": best_server(run.servers, "texts_per_s", max), "a": best_server(run.servers, "p50_ms", min)}
        for s in run.servers:
            if "penstock" not in s.name:
                continue
            if s.texts_per_s and best["b"]:
                add(f"{prefix}http.b.{s.dtype}.ratio_vs_best", max(s.texts_per_s) / best["b"][0], "ratio")
            if s.p50_ms and best["a"]:
                add(f"{prefix}http.a.{s.dtype}.ratio_vs_best", min(s.p50_ms) / best["a"][0], "ratio")
            if s.rss_end and s.weights:
                add(f"{prefix}server.{s.dtype}.resident_mb", s.rss_end, "MB")
                add(f"{prefix}server.{s.dtype}.resident_limit_mb", 1.3 * s.weights + 200, "MB")
    return out


def chart(runs, path):
    """Workload (b) of every model, and a, c and d of the first."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: a small file
    matplotlib.rcParams["svg.hashsalt"] = "peers"
    from matplotlib import pyplot
    panels = [(runs[0], w) for w in WORKLOADS] + [(r, "b") for r in runs[1:]]
    panels = [(r, w) for r, w in panels if any(figure(r, c, w) for c in r.contenders)]
    if not panels:
        return
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure_, axes = pyplot.subplots(rows, columns, figsize=(6.2 * columns, 3.6 * rows), squeeze=False)
    colours = {"f32": "#8da0b6", "bf16": "#5b8c5a", "int8": "#c08552"}
    for axis in axes.flat[len(panels):]:
        axis.axis("off")
    for axis, (run, workload) in zip(axes.flat, panels):
        bars = [(c, figure(run, c, workload)) for dtype in reversed(DTYPES) for c in reversed(run.contenders)
                if c.dtype == dtype and figure(run, c, workload)]
        labels = [f"{c.label.strip('*')} {c.dtype}" for c, _ in bars]
        drawn = axis.barh(labels, [v for _, v in bars], color=[colours[c.dtype] for c, _ in bars])
        for bar, (c, value) in zip(drawn, bars):
            if c.peer == "penstock":
                bar.set(edgecolor="black", linewidth=1.6)
            axis.annotate(f"{value:.3g}", (value, bar.get_y() + bar.get_height() / 2), (4, 0),
                          textcoords="offset points", va="center", fontsize=7)
        axis.tick_params(labelsize=7)
        axis.margins(x=0.12)
        unit = "ms p50, less is better" if workload == "a" else "texts/s"
        axis.set_title(f"{run.name}, {workload}: {WORKLOADS[workload]} ({unit})", fontsize=9)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    figure_.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure_.savefig(path, metadata={"Date": None})


def command(args):
    given = list(sys.argv[1:])
    for flag in ("--model", "--build", "--cache", "--docs", "--json"):
        while flag in given:
            at = given.index(flag)
            del given[at:at + 2]
    return "make bench-peers" + (f' PEERS_FLAGS="{" ".join(given)}"' if given else "")


def write(runs, args):
    missing = args.cache.parent / "peers-venv/missing.json"
    missing = json.loads(missing.read_text()) if missing.exists() else {}
    lines = ["# Penstock beside other runtimes", "",
             f"`{command(args)}`: {args.threads} threads each; {machine.processor()}; Python "
             f"{platform.python_version()}.", "", versions(args) + ".", ""]
    lines += [f"Not installed: {name}: {reason}." for name, reason in missing.items()]
    if args.quick:
        lines += ["**A trial run with a few texts: its figures mean nothing.**", ""]
    lines += ["Same weights, same texts, one process a peer, in turns; how is said in `docs/BENCHMARKS.md`. `way`: graph "
              "or mode, and texts a batch (Penstock: tokens), that were fastest on a sample; `/2x1`: two batches at a "
              "time on one thread each. Bare runtimes, llama.cpp and Penstock take token ids; sentence-transformers and "
              f"the servers take texts. Cosine: vectors of (b) against {reference_name(runs)}; a peer whose mean is "
              f"below {COSINE_MIN} with real weights is not counted as best.", "",
              f"![Rates and latencies](images/{args.name}.svg)", ""]
    for run in runs:
        lines += model_section(run) + scaling_section(run, args.threads) + server_section(run)
    args.docs.mkdir(parents=True, exist_ok=True)
    page, image = args.docs / f"{args.name}.md", args.docs / f"images/{args.name}.svg"
    page.write_text("\n".join(lines).rstrip() + "\n")
    chart(runs, image)
    if args.json:
        args.json.write_text("".join(json.dumps(r) + "\n" for r in records(runs)))
    print("\n".join(lines))
    print(f"wrote {page} and {image}", flush=True)


def reference_name(runs):
    for c in runs[0].contenders:
        if c.dtype == "f32" and "b" in c.agreement:
            return f"{c.label} in f32"
    return "the first peer in f32"
