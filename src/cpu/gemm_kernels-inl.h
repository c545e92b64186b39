// The kernels that multiply by packed panels, which are all that a tile unit changes, in the order
// they need each other. Included inside namespace penstock::cpu::<isa>, after that set's Simd and
// Tiles.
// clang-format off
#include "cpu/math-inl.h"
#include "cpu/dot-inl.h"
#include "cpu/gemm-inl.h"
#include "cpu/tile_gemm-inl.h"
#include "cpu/pack_rows-inl.h"
#include "cpu/attention-inl.h"
#include "cpu/peak-inl.h"
// clang-format on
