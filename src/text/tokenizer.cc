#include "text/tokenizer.h"

#include "files/gguf.h"
#include "files/mapped_file.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_parts.h"

namespace penstock::text {
namespace {

Expected<std::unique_ptr<Tokenizer>> FromGgufFile(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const files::GgufModel model, files::GgufModel::Open(path));
  auto tokenizer = TokenizerFromGguf(model.metadata);
  for (const files::MappedFile& file : model.files) PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!tokenizer.ok()) return tokenizer.status().Annotate(path);
  return tokenizer;
}

}  // namespace

void Encoding::Clear() {
  ids.clear();
  type_ids.clear();
  special_mask.clear();
  offsets.clear();
  sequence_ids.clear();
  truncated_tokens = 0;
}

Expected<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string_view json) {
  PENSTOCK_ASSIGN_OR_RETURN(TokenizerParts parts, LoadTokenizerParts(json));
  return MakeTokenizer(std::move(parts));
}

Expected<std::unique_ptr<Tokenizer>> Tokenizer::FromFile(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(files::MappedFile file, files::MappedFile::Open(path));
  if (file.text().starts_with("GGUF")) return FromGgufFile(path);
  auto tokenizer = FromJson(file.text());
  PENSTOCK_RETURN_IF_ERROR(file.Check());
  if (!tokenizer.ok()) return tokenizer.status().Annotate(path);
  return tokenizer;
}

}  // namespace penstock::text
