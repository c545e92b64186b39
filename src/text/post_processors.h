// Post-processors: special tokens around one text or a pair, and trimming of offsets.
#pragma once

#include <string>
#include <vector>

namespace penstock::text {

// A part of a template: one of the texts, or special tokens.
struct TemplatePart {
  int sequence = -1;  // 0, 1: that text; -1: the tokens in `ids`
  int32_t type_id = 0;
  std::vector<int32_t> ids;
};

// One step of ByteLevel or RobertaProcessing that takes whitespace off token offsets.
struct OffsetTrim {
  bool add_prefix_space = true;
};

struct PostProcessor {
  std::vector<OffsetTrim> trims;  // before the template
  bool has_template = false;
  bool roberta = false;  // all type ids are 0
  std::vector<TemplatePart> single, pair;
  size_t added_single = 0, added_pair = 0;  // special tokens of each template
};

}  // namespace penstock::text
