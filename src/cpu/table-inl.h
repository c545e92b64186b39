// The rows of the dispatch table, in the order of struct Kernels after `isa`.
kPanel, kTileRows, GemmPanel, AddNorm, EmbedTokens, GateRows, PoolRows, AttentionHead,
    AttentionScratchFloats,
