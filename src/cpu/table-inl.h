// The rows of the dispatch table, in the order of struct Kernels after `multiplies_bf16`.
// clang-format off
    kPanel,
    kTileRows,
    PackRows,
    Gemm,
    Peak,
    AddNorm,
    EmbedTokens,
    PoolRows,
    AttentionHead,
    AttentionScratchFloats,
    PackBlockRows,
    BlockGemm,
    // clang-format on
