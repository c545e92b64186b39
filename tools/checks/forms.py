"""Forms that make an addition a change in many files: tests on names, switches, twins, wide seams, large rooms."""

import re

from checks.source import ROOT, is_generated, is_product, line_of, room_of, without_comments

# Families of models, each in a file of its own; beside these the names of src/families/*.cc.
FAMILIES = (
    "bert roberta xlm-roberta camembert distilbert mpnet electra modernbert nomic nomic_bert nomic-bert new llama qwen "
    "qwen2 qwen3 gemma gemma2 gemma3 gemma3_text gemma-embedding mistral mixtral phi phi3 smollm3 olmo2 granite starcoder2 "
    "gpt2"
).split()
TYPES = "f32 f16 bf16 int8 i8 F32 F16 BF16 I8 q4_0 q4_1 q5_0 q5_1 q8_0 q4_k q5_k q6_k Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K".split()
DIALECTS = "openai anthropic ollama tei tgi cohere jina voyage kserve vertex vllm sagemaker".split()
# Where they may be told apart by name.
FAMILY_ROOMS = {"families", "formats"}
TYPE_ROOMS = {"numbers"}
DIALECT_FOLDER = "src/dialects"
# Errors by which a dialect is told, and paths by whose begin one is guessed.
DIALECT_TEST = re.compile(r'[=!]= (?:dialects::)?k\w+Errors\b|\bschema ==|starts_with\("/(?:api|v1|v2)/?"\)')

SWITCH = re.compile(r"\bcase (?:\w+::)*(\w+)::k[A-Z]\w*")
ENUM = re.compile(r"^\s*enum class (\w+)", re.MULTILINE)
ENUM_FILES_MAX = 2

TWIN_FIELD = re.compile(r"\bwindow_(\w+)\b")
TWIN_CALL = re.compile(
    r"\b(Find|Get|Lease|Load|Start|Run|Prepare|Pack)(Text|Tensors?|Generator|Encoder|Decoder|Steps|Blocks)\("
)

SEAM_LINES_MAX = 200
SEAMS = """
program/program.h program/op.h program/backend.h program/program_run.h program/packed_batch.h program/encoder_runner.h
gate/compute_gate.h signature/tensor_runner.h kv/cache_group.h families/family.h models/layer_builder.h
engine/model.h engine/encoder_engine.h engine/registry.h registry/model.h registry/registry.h registry/devices.h registry/lease.h
sched/encoder_scheduler.h sched/tensor_scheduler.h generate/decode_scheduler.h checks/check.h
""".split()


def compared(names):
    """A comparison with one of these texts: ==, !=, .Is("x"), starts_with("x")."""
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(
        rf'(?:[=!]= ?|\b(?:Is|IsAny|starts_with|ends_with)\((?:\w+, )?)"(?:{either})"|"(?:{either})" ?[=!]='
    )


def check_names(code, ratchets):
    families = {
        *FAMILIES,
        *(path.stem for path in (ROOT / "src" / "families").glob("*.cc") if "_test" not in path.stem),
    }
    kinds = (
        ("names of families", compared(families), lambda path: room_of(path) in FAMILY_ROOMS),
        ("names of number types", compared(TYPES), lambda path: room_of(path) in TYPE_ROOMS),
        ("names of dialects", compared(DIALECTS), lambda path: DIALECT_FOLDER in path.as_posix()),
        ("tests on a dialect", DIALECT_TEST, lambda path: DIALECT_FOLDER in path.as_posix()),
    )
    for section, pattern, is_home in kinds:
        found = {}
        for path, text in code:
            if is_home(path):
                continue
            name = str(path.relative_to(ROOT))
            for match in pattern.finditer(text):
                found.setdefault(name, []).append(f"{name}:{line_of(text, match.start())}: {match[0]}")
        yield from ratchets.check(section, found, "ask its own file: a row, a function or a virtual there says it")


def check_switches(code, ratchets):
    """A name that several classes give to an enum of their own is not told apart here, and left out."""
    defined, files = {}, {}
    for path, text in code:
        for name in ENUM.findall(text):
            defined[name] = defined.get(name, 0) + 1
        for name in set(SWITCH.findall(text)):
            files.setdefault(name, []).append(str(path.relative_to(ROOT)))
    found = {name: paths for name, paths in files.items() if defined.get(name) == 1 and len(paths) > ENUM_FILES_MAX}
    advice = f"an enum that more than {ENUM_FILES_MAX} files switch on becomes a table or a virtual"
    yield from ratchets.check("switches on an enum, files", found, advice)


def check_twins(code, ratchets):
    found = {}
    for path, text in code:
        if path.suffix != ".h":
            continue
        name = str(path.relative_to(ROOT))
        words = set(re.findall(r"\w+", text))
        twins = {f"window_{one}" for one in TWIN_FIELD.findall(text) if one in words or one.rstrip("_") + "_" in words}
        twins |= {verb + what for verb, what in TWIN_CALL.findall(text) if re.search(rf"\b{verb}\(", text)}
        if twins:
            found[name] = [f"{name}: {twin}" for twin in sorted(twins)]
    yield from ratchets.check("twins", found, "the second of a kind makes a list, or a parameter")


def check_seams(files, ratchets):
    sizes = {
        f"src/{seam}": text.count("\n")
        for seam in SEAMS
        for path, text in files
        if path == ROOT / "src" / seam and text.count("\n") > SEAM_LINES_MAX
    }
    advice = f"a seam is read in a few minutes: under {SEAM_LINES_MAX} lines"
    yield from ratchets.check_sizes("seams", sizes, 50, advice)


def check_budgets(files, ratchets):
    rooms = {}
    for path, text in files:
        if is_product(path) and not is_generated(text):
            rooms[room_of(path)] = rooms.get(room_of(path), 0) + text.count("\n")
    advice = "say the same in fewer lines, or raise it in tools/ratchets.json and say why in the commit"
    yield from ratchets.check_sizes("lines of a room", rooms, 100, advice)


def check(files, ratchets):
    """files: [(path, text)]"""
    code = [(path, without_comments(text)) for path, text in files if is_product(path)]
    yield from check_names(code, ratchets)
    yield from check_switches(code, ratchets)
    yield from check_twins(code, ratchets)
    yield from check_seams(files, ratchets)
    yield from check_budgets(files, ratchets)
