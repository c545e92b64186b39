#include "api/fill_prompt.h"

#include <array>
#include <string_view>

namespace penstock::api {
namespace {

// The marks of one family of tokenizers. "": it has none for that.
struct FillMarks {
  std::string_view prefix, suffix, middle;
  std::string_view repository, file;
  bool suffix_first = false;
};
constexpr FillMarks kMarks[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},
    {"▁<PRE>", "▁<SUF>", "▁<MID>", "", ""},
    {"[PREFIX]", "[SUFFIX]", "", "", "", true},
};
// What else ends a text that was filled in, where the tokenizer has it.
constexpr std::string_view kEnds[] = {"<|endoftext|>", "<|fim_pad|>", "<fim_pad>", "▁<EOT>"};

class FillTokenizer {
 public:
  FillTokenizer(const text::Tokenizer& tokenizer, const StopCondition& stop)
      : tokenizer_(tokenizer), stop_(stop) {}

  Status Add(std::string_view mark, std::string_view text) {
    if (!mark.empty()) ids_.push_back(tokenizer_.TokenToId(mark));
    return AddText(text);
  }
  Status AddText(std::string_view text) {
    if (text.empty()) return Status::Ok();
    std::vector<int32_t> ids;
    PENSTOCK_RETURN_IF_ERROR(tokenizer_.EncodeTextUntil(text, stop_, &ids));
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return Status::Ok();
  }
  // A token that begins every text.
  Status AddBegin() {
    text::Encoding encoding;
    PENSTOCK_RETURN_IF_ERROR(tokenizer_.Encode("", text::EncodeOptions(), &encoding));
    if (encoding.ids.size() == 1) ids_ = std::move(encoding.ids);
    return Status::Ok();
  }
  std::vector<int32_t> Take() { return std::move(ids_); }

 private:
  const text::Tokenizer& tokenizer_;
  const StopCondition& stop_;
  std::vector<int32_t> ids_;
};

bool Has(const text::Tokenizer& tokenizer, std::string_view token) {
  return token.empty() || tokenizer.TokenToId(token) >= 0;
}

const FillMarks* FindMarks(const text::Tokenizer& tokenizer) {
  for (const FillMarks& marks : kMarks) {
    if (Has(tokenizer, marks.prefix) && Has(tokenizer, marks.suffix) &&
        Has(tokenizer, marks.middle)) {
      return &marks;
    }
  }
  return nullptr;
}

}  // namespace

Expected<std::vector<int32_t>> FillTokens(const text::Tokenizer& tokenizer,
                                          const FillPrompt& prompt, const StopCondition& stop,
                                          std::vector<int32_t>* stops) {
  const FillMarks* const marks = FindMarks(tokenizer);
  if (marks == nullptr) {
    return Status::InvalidArgument(
        "the model cannot write between two texts: its tokenizer has no marks for them", "suffix");
  }
  FillTokenizer out(tokenizer, stop);
  PENSTOCK_RETURN_IF_ERROR(out.AddBegin());
  const bool knows_files = !marks->file.empty() && Has(tokenizer, marks->file);
  const bool in_files = knows_files && !prompt.files.empty();
  if (in_files && Has(tokenizer, marks->repository)) {
    PENSTOCK_RETURN_IF_ERROR(out.Add(marks->repository, "repository\n"));
  }
  for (const FillPrompt::File& file : prompt.files) {
    const std::string text = (knows_files ? "" : "--- ") + file.name + "\n" + file.text + "\n";
    PENSTOCK_RETURN_IF_ERROR(out.Add(knows_files ? marks->file : "", text));
  }
  if (in_files) PENSTOCK_RETURN_IF_ERROR(out.Add(marks->file, "file\n"));
  // The text that is written follows what stands last.
  if (marks->suffix_first) {
    PENSTOCK_RETURN_IF_ERROR(out.Add(marks->suffix, prompt.suffix));
    PENSTOCK_RETURN_IF_ERROR(out.Add(marks->prefix, prompt.prefix));
  } else {
    PENSTOCK_RETURN_IF_ERROR(out.Add(marks->prefix, prompt.prefix));
    PENSTOCK_RETURN_IF_ERROR(out.Add(marks->suffix, prompt.suffix));
  }
  PENSTOCK_RETURN_IF_ERROR(out.Add(marks->middle, prompt.begun));
  for (const std::string_view end : kEnds) {
    if (const int32_t id = tokenizer.TokenToId(end); id >= 0) stops->push_back(id);
  }
  for (const std::string_view end : {marks->file, marks->repository}) {
    const int32_t id = end.empty() ? -1 : tokenizer.TokenToId(end);
    if (id >= 0) stops->push_back(id);
  }
  return out.Take();
}

size_t FillBytes(const FillPrompt& prompt) {
  size_t bytes = prompt.prefix.size() + prompt.suffix.size() + prompt.begun.size();
  for (const FillPrompt::File& file : prompt.files) bytes += file.name.size() + file.text.size();
  return bytes;
}

}  // namespace penstock::api
