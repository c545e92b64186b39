"""`penstock embed --plot`: the picture beside PCA by numpy, and what it does with little, much and wrong input."""
import json
import os
import xml.etree.ElementTree

import numpy
import pytest

from conftest import EMBED, GOLDEN, find_minilm, run

MODEL = ("--model", GOLDEN / EMBED)
TEXTS = ["a dog", "a cat", "the sun & <rain>", "a \"quoted\" bird", "rain falls", "dogs bark", "cats sleep", "été à Paris",
         "日本語のテキスト", "trains run late", "a train", "birds sing"]
SVG = "{http://www.w3.org/2000/svg}"


def read_svg(path):
    """Points with their tips in order, labels, and all text."""
    root = xml.etree.ElementTree.fromstring(path.read_text())
    points = [(float(c.get("cx")), float(c.get("cy")), c.findtext(f"{SVG}title")) for c in root.iter(f"{SVG}circle")]
    labels = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "t l"]
    return points, labels, [t.text for t in root.iter(f"{SVG}text")]


def pca(vectors):
    """Coordinates on two axes, each with the largest entry of its axis positive, and shares of variance."""
    centred = vectors.astype(numpy.float64) - vectors.astype(numpy.float64).mean(axis=0)
    _, singular, axes = numpy.linalg.svd(centred, full_matrices=False)
    axes = [axis * numpy.sign(axis[numpy.abs(axis).argmax()]) for axis in axes[:2]]
    return centred @ numpy.stack(axes, axis=1), singular[:2] ** 2 / (singular ** 2).sum()


def check_positions(points, wanted):
    """The picture has the same scale on both axes, y upwards: a shift and one factor lead to the coordinates."""
    drawn = numpy.array([(x, -y) for x, y, _ in points])
    drawn -= drawn.mean(axis=0)
    wanted = wanted - wanted.mean(axis=0)
    scale = (drawn * wanted).sum() / (wanted ** 2).sum()
    assert scale > 0
    assert numpy.abs(drawn - scale * wanted).max() < 0.2  # positions have one decimal


def test_positions_and_shares_are_those_of_numpy(tmp_path):
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(TEXTS) + "\n")
    run("embed", *MODEL, source, "-o", tmp_path / "x.npy", "--plot", tmp_path / "x.svg")
    points, labels, text = read_svg(tmp_path / "x.svg")
    wanted, shares = pca(numpy.load(tmp_path / "x.npy"))
    assert [tip for _, _, tip in points] == TEXTS
    assert set(labels) <= set(TEXTS) and len(labels) >= 8
    check_positions(points, wanted)
    assert f"principal axis 1 ({100 * shares[0]:.1f} % of the variance)" in text
    assert f"principal axis 2 ({100 * shares[1]:.1f} % of the variance)" in text
    assert f"{len(TEXTS)} texts by {EMBED}" in text
    first = (tmp_path / "x.svg").read_bytes()
    run("embed", *MODEL, "--plot=" + str(tmp_path / "x.svg"), source, "-o", tmp_path / "y.npy", "--threads", 1)
    assert (tmp_path / "x.svg").read_bytes() == first


@pytest.mark.skipif(find_minilm() is None, reason="all-MiniLM-L6-v2 IS NOT HERE: set PENSTOCK_MINILM to its folder")
def test_a_real_model_and_many_texts(tmp_path):
    source = tmp_path / "texts.txt"
    source.write_text("".join(f"{a} {b} number {i}\n" for i, (a, b) in enumerate(
        (a, b) for a in ("red", "green", "the last", "a very small", "our") for b in ("dog", "train", "river", "law") for _ in range(10))))
    run("embed", "--model", find_minilm(), source, "-o", tmp_path / "x.npy", "--plot", tmp_path / "x.svg")
    points, labels, text = read_svg(tmp_path / "x.svg")
    wanted, shares = pca(numpy.load(tmp_path / "x.npy"))
    check_positions(points, wanted)
    assert f"principal axis 1 ({100 * shares[0]:.1f} % of the variance)" in text and 0 < len(labels) <= 80


@pytest.mark.parametrize("texts, note", [([], "nothing to draw"), (["a dog"], "one text has no variance"),
                                         (["a dog"] * 5, "all vectors are the same"), (["a dog", "a cat"], None)])
def test_few_texts(texts, note, tmp_path):
    path = tmp_path / "x.SVG"
    run("embed", *MODEL, "-o", tmp_path / "x.npy", "--plot", path, stdin="".join(t + "\n" for t in texts).encode())
    points, labels, text = read_svg(path)
    assert len(points) == len(texts) and (note is None or note in text)
    if note is None:
        assert "principal axis 1 (100.0 % of the variance)" in text and "principal axis 2 (0.0 % of the variance)" in text
        assert sorted(labels) == sorted(texts) and points[0][1] == points[1][1]


def test_of_many_rows_an_even_sample_is_drawn(tmp_path):
    source = tmp_path / "texts.txt"
    source.write_text("".join(f"dog {i}\n" for i in range(12_000)))
    for name in ("x", "y"):
        run("embed", *MODEL, source, "-o", os.devnull, "--plot", tmp_path / f"{name}.svg")
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "y.svg").read_bytes()
    points, _, text = read_svg(tmp_path / "x.svg")
    assert len(points) == 10_000 and "12,000 texts" in text[0] and "10,000 of them drawn, spread evenly over the input" in text
    rows = [int(tip.split()[1]) for _, _, tip in points]
    assert rows == sorted(rows) and abs(sum(row < 6000 for row in rows) - 5000) < 200


def test_skipped_rows_have_no_point(tmp_path):
    source = tmp_path / "texts.jsonl"
    source.write_text('{"text": "a dog"}\n{"text": 3}\n{"text": "a cat"}\n')
    done = run("embed", *MODEL, source, "-o", tmp_path / "x.npy", "--plot", tmp_path / "x.svg", "--on-error", "skip", check=False)
    assert done.returncode == 3
    assert [tip for _, _, tip in read_svg(tmp_path / "x.svg")[0]] == ["a dog", "a cat"]


def test_by_a_server(tmp_path, server):
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(TEXTS) + "\n")
    run("embed", "--url", server.url, source, "-o", tmp_path / "x.npy", "--plot", tmp_path / "x.svg")
    check_positions(read_svg(tmp_path / "x.svg")[0], pca(numpy.load(tmp_path / "x.npy"))[0])


def test_hostile_texts_stay_texts(tmp_path):
    texts = ["</text><script>alert(1)</script>", "a\tb \x1b[31m red", "&amp; &#0;", "\u202eback", "]]>", "x" * 5000, "é" * 5000]
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run("embed", *MODEL, source, "-o", os.devnull, "--plot", tmp_path / "x.svg")
    points, _labels, _ = read_svg(tmp_path / "x.svg")
    assert points[0][2] == texts[0] and points[2][2] == texts[2] and points[4][2] == texts[4]
    assert "<script" not in (tmp_path / "x.svg").read_text() and "\x1b" not in (tmp_path / "x.svg").read_text()
    assert len(points[5][2]) == 120 and points[6][2] == "é" * 60


@pytest.mark.parametrize("args, message", [
    (["--plot", "x.pdf"], b"--plot: 'x.pdf' does not end in .svg: plots are SVG files"),
    (["--plot", "x.png"], b"does not end in .svg: plots are SVG files"),
    (["--plot", ""], b"does not end in .svg"),
    (["--plot"], b"--plot needs a value"),
    (["--plot", "a.svg", "--plot", "b.svg"], b"--plot is given twice"),
    (["--plot", "a.svg", "--resume", "-o", "x.npy"], b"do not go together"),
    (["--plot", "a.svg", "-o", "a.svg"], b"--plot and --output name the same file"),
    (["--plot", "no/such/folder/a.svg"], b"--plot: no/such/folder/a.svg.part: No such file or directory")])
def test_mistakes_are_told_before_any_work(args, message, tmp_path):
    (tmp_path / "in.txt").write_text("dog\n")
    done = run("embed", "in.txt", "--model", "/no/such/model", *args, cwd=tmp_path, check=False)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_run_that_fails_leaves_the_older_plot(tmp_path):
    plot = tmp_path / "x.svg"
    plot.write_text("older")
    run("embed", *MODEL, "--no-auto-truncate", "-o", tmp_path / "x.npy", "--plot", plot, stdin=b"dog " * 300, check=False)
    assert plot.read_text() == "older" and not (tmp_path / "x.svg.part").exists()


def test_a_plot_that_cannot_be_written_is_told(tmp_path):
    link = tmp_path / "full.svg"
    link.symlink_to("/dev/full")
    done = run("embed", *MODEL, "-o", tmp_path / "x.npy", "--plot", link, stdin=b"a dog\na cat\n", check=False)
    assert done.returncode == 1 and b"full.svg" in done.stderr and b"No space left" in done.stderr, done.stderr
    assert numpy.load(tmp_path / "x.npy").shape[0] == 2
