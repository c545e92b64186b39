"""What models and workloads are called on pages."""

ABOUT = {
    "minilm": "all-MiniLM-L6-v2, its own weights",
    "bge-base": "the shape of bge-base-en-v1.5 (random weights)",
    "bge-large": "the shape of bge-large-en-v1.5 (random weights)",
    "modernbert-base": "the shape of ModernBERT-base (random weights, vocabulary of BERT)",
}
WORKLOADS = {
    "a": "1 query of 16 tokens",
    "b": "mixed texts, 8 to 512 tokens",
    "c": "rerank, passages of 120 tokens",
    "d": "texts of 512 tokens",
}
