// EmbedOp: rows of a table, or of a matrix that is multiplied by as well, for ids.
#pragma once

#include "program/op_visitor.h"

namespace penstock::program {

// y = norm(scale * words[id] + positions[position] + types[type id]). Positions of a sequence count
// from position_padding + 1; a token whose id is position_padding has that position and is not
// counted.
struct EmbedOp {
  static constexpr const char* kName = "embed";

  const Table* words = nullptr;          // one of the two
  const PackedLinear* matrix = nullptr;  // [vocabulary, width]
  const Table* positions = nullptr;      // or null
  const Table* types = nullptr;          // or null; with one row: that one for every token
  int32_t position_padding = -1;         // -1: count from 0
  float scale = 1;
  Norm norm;
  ValueId y = kNoValue;

  int64_t vocabulary() const { return words != nullptr ? words->rows() : matrix->out(); }
  int32_t width() const { return words != nullptr ? words->width() : matrix->in(); }

  template <typename V>
  void Describe(V& v) const {
    if (!v.Require(words != nullptr || matrix != nullptr, "words are missing")) return;
    v.Require(words == nullptr || matrix == nullptr, "words are a table and a matrix");
    v.Use("words", words);
    if (matrix != nullptr) v.LookUp("words", *matrix, y);
    v.Require(position_padding >= -1, "position_padding is below -1");
    if (positions != nullptr) {
      const int64_t rows = int64_t{v.max_length()} + position_padding + 1;
      v.Require(positions->width() == width() && positions->rows() >= rows,
                "positions are [{}, {}], [{}, {}] are needed", positions->rows(),
                positions->width(), rows, width());
    }
    v.Use("positions", positions);
    v.Require(types == nullptr || (types->width() == width() && types->rows() > 0),
              "types have another width than words");
    v.Use("types", types);
    DescribeScale(v, scale);
    v.Normalise("norm", norm, width());
    v.Write("y", y, Rows::kTokens, width());
  }
};

}  // namespace penstock::program
