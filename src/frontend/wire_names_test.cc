#include "frontend/wire_names.h"

#include <gtest/gtest.h>

namespace penstock::frontend {
namespace {

TEST(WireNames, FieldsGetTheNamesOfTheWire) {
  const auto indexed =
      WithWireNames(Status::InvalidArgument(
                        "inputs[3] is empty; 'inputs' has 4 inputs, noinputs[1]", "inputs[3]"),
                    {{"inputs", "input"}});
  EXPECT_EQ(indexed.message(), "input[3] is empty; 'input' has 4 inputs, noinputs[1]");
  EXPECT_EQ(indexed.field(), "input[3]");
  const auto plain = WithWireNames(
      Status::InvalidArgument("documents is empty; the documents are needed", "documents"),
      {{"documents", "texts"}});
  EXPECT_EQ(plain.message(), "texts is empty; the documents are needed");
  const auto source =
      WithWireNames(Status::InvalidArgument("'source' is too long", "source"),
                    {{"source", "inputs.source_sentence"}, {"sentences", "inputs.sentences"}});
  EXPECT_EQ(source.message(), "'inputs.source_sentence' is too long");
  EXPECT_EQ(source.field(), "inputs.source_sentence");
  const auto other = WithWireNames(
      Status(StatusCode::kResourceExhausted, "documents", "inputs_max").WithRetryAfter(3),
      {{"inputs", "input"}});
  EXPECT_EQ(other.field(), "inputs_max");
  EXPECT_EQ(other.retry_after_s(), 3);
  // A front end whose messages hold one input calls it by the field's name.
  const auto single =
      WithWireNames(Status::InvalidArgument("inputs[0]: 'inputs[0]' has 9 bytes", "inputs[0]"),
                    {{"inputs[0]", "inputs"}});
  EXPECT_EQ(single.message(), "inputs: 'inputs' has 9 bytes");
  EXPECT_EQ(single.field(), "inputs");
}

}  // namespace
}  // namespace penstock::frontend
