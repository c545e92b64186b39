#include "text/gguf_pre_kinds.h"

#include <algorithm>
#include <span>

#include "base/printable.h"
#include "unicode/unicode.h"

namespace penstock::text {
namespace {

enum class Cut {
  kPattern,          // at the matches of `pattern`
  kGpt2,             // by GPT-2's pattern
  kDigit,            // each digit alone
  kDigitRuns,        // runs of digits
  kPunctuationRuns,  // runs of punctuation
  kSpelling,         // by GPT-2's pattern, and then each byte becomes a letter
};

struct CutStep {
  Cut cut;
  std::string_view pattern = "";
};

#define PENSTOCK_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PENSTOCK_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PENSTOCK_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define PENSTOCK_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

// Contractions, words with a character before them, digits, symbols, spaces.
#define PENSTOCK_WORDS(word, digits)                              \
  PENSTOCK_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?" word "|" digits \
                        "| ?[^\\s\\p{L}\\p{N}"                    \
                        "]+[\\r\\n]*|" PENSTOCK_SPACES

// Words that begin with capitals or have none; `end` may follow them.
#define PENSTOCK_CASED(end, digits)                                              \
  "[^\\r\\n\\p{L}\\p{N}]?" PENSTOCK_UPPER "*" PENSTOCK_LOWER "+" end             \
  "|[^\\r\\n\\p{L}\\p{N}]?" PENSTOCK_UPPER "+" PENSTOCK_LOWER "*" end "|" digits \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PENSTOCK_SPACES

// The letters of DeepSeek's first models: of scripts with two cases.
constexpr std::string_view kCasedLetters =
    "\\s?["
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF"
    "\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1"
    "\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD"
    "\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D"
    "\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4"
    "\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC"
    "\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128"
    "\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B"
    "\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787"
    "\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
    "\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943"
    "]+";

constexpr std::string_view kLineBreak = "[\\r\\n]";
constexpr std::string_view kHanKana = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr std::string_view kHanHangul = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
constexpr std::string_view kWidePunctuation =
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+";
constexpr std::string_view kDeepSeek3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" PENSTOCK_SPACES;
constexpr std::string_view kQwen35 = PENSTOCK_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
    "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" PENSTOCK_SPACES;

constexpr CutStep kGpt2Steps[] = {{Cut::kGpt2}};
constexpr CutStep kDigitSteps[] = {{Cut::kDigit}, {Cut::kGpt2}};
constexpr CutStep kLlama3Steps[] = {{Cut::kPattern, PENSTOCK_WORDS("\\p{L}+", "\\p{N}{1,3}")}};
constexpr CutStep kQwen2Steps[] = {{Cut::kPattern, PENSTOCK_WORDS("\\p{L}+", "\\p{N}")}};
constexpr CutStep kQwen35Steps[] = {{Cut::kPattern, kQwen35}};
constexpr CutStep kGpt4oSteps[] = {
    {Cut::kPattern, PENSTOCK_CASED(PENSTOCK_CONTRACTIONS "?", "\\p{N}{1,3}")}};
constexpr CutStep kTekkenSteps[] = {{Cut::kPattern, PENSTOCK_CASED("", "\\p{N}")}};
constexpr CutStep kFalconSteps[] = {{Cut::kPunctuationRuns},
                                    {Cut::kSpelling},
                                    {Cut::kDigitRuns},
                                    {Cut::kPattern, "[0-9][0-9][0-9]"}};
constexpr CutStep kDefaultSteps[] = {{Cut::kPattern, "[\\p{P}\\$\\+<=>\\^~\\|]+"},
                                     {Cut::kGpt2},
                                     {Cut::kDigitRuns},
                                     {Cut::kPattern, "[0-9][0-9][0-9]"}};
constexpr CutStep kDeepSeekSteps[] = {
    {Cut::kPattern, kLineBreak}, {Cut::kPattern, kCasedLetters}, {Cut::kPattern, kWidePunctuation},
    {Cut::kPattern, "\\s+$"},    {Cut::kPattern, kHanHangul},    {Cut::kDigit}};
constexpr CutStep kDeepSeekCoderSteps[] = {{Cut::kPattern, kLineBreak},
                                           {Cut::kPattern, "\\s?\\p{L}+"},
                                           {Cut::kPattern, "\\s?\\p{P}+"},
                                           {Cut::kPattern, kHanHangul},
                                           {Cut::kDigit}};
constexpr CutStep kDeepSeek3Steps[] = {
    {Cut::kPattern, "\\p{N}{1,3}"}, {Cut::kPattern, kHanKana}, {Cut::kPattern, kDeepSeek3}};

enum Flags : unsigned {
  kNothing = 0,
  kNfc = 1,
  kIgnoreMerges = 2,
  kBos = 4,
  kSep = 8,
  kMask = 16,
};

struct Kind {
  std::string_view name;
  std::span<const CutStep> steps;
  unsigned flags = kNothing;
};

constexpr Kind kKinds[] = {
    {"chatglm-bpe", kLlama3Steps},
    {"codeshell", kDigitSteps},
    {"command-r", kDigitSteps, kNfc},
    {"dbrx", kLlama3Steps},
    {"deepseek-coder", kDeepSeekCoderSteps},
    {"deepseek-llm", kDeepSeekSteps},
    {"deepseek-r1-qwen", kQwen2Steps, kNfc},
    {"deepseek-v3", kDeepSeek3Steps},
    {"default", kDefaultSteps},
    {"exaone", kDigitSteps},
    {"falcon", kFalconSteps},
    {"falcon3", kLlama3Steps, kIgnoreMerges | kBos},
    {"glm4", kLlama3Steps},
    {"gpt-2", kGpt2Steps},
    {"gpt-4o", kGpt4oSteps},
    {"jina-v1-en", kGpt2Steps, kSep},
    {"jina-v2-code", kGpt2Steps, kSep | kMask},
    {"jina-v2-de", kGpt2Steps, kMask},
    {"jina-v2-es", kGpt2Steps, kMask},
    {"llama-bpe", kLlama3Steps, kIgnoreMerges | kBos},
    {"llama-v3", kLlama3Steps, kIgnoreMerges | kBos},
    {"llama3", kLlama3Steps, kIgnoreMerges | kBos},
    {"llama4", kGpt4oSteps},
    {"minerva-7b", kDigitSteps},
    {"modern-bert", kGpt2Steps, kNfc | kMask},
    {"mpt", kGpt2Steps, kNfc},
    {"olmo", kGpt2Steps, kNfc},
    {"phi-2", kGpt2Steps},
    {"qwen2", kQwen2Steps, kNfc},
    {"qwen35", kQwen35Steps, kNfc},
    {"refact", kDigitSteps},
    {"roberta-bpe", kGpt2Steps, kSep | kMask},
    {"smaug-bpe", kLlama3Steps},
    {"smollm", kDigitSteps},
    {"stablelm2", kQwen2Steps},
    {"starcoder", kDigitSteps},
    {"tekken", kTekkenSteps, kIgnoreMerges | kBos},
};

Expected<std::unique_ptr<PreTokenizer>> MakeStep(const CutStep& step) {
  using Result = std::unique_ptr<PreTokenizer>;
  switch (step.cut) {
    case Cut::kPattern: {
      PENSTOCK_ASSIGN_OR_RETURN(regex::Regex regex, regex::Regex::Compile(step.pattern));
      return Result(std::make_unique<SplitPreTokenizer>(std::move(regex),
                                                        regex::KnownPattern::Find(step.pattern),
                                                        SplitBehavior::kIsolated, false));
    }
    case Cut::kGpt2: {
      auto split = std::make_unique<ByteLevelPreTokenizer>(false, true);
      split->set_keep_bytes(true);
      return Result(std::move(split));
    }
    case Cut::kDigit:
      return Result(std::make_unique<ClassSplit>(unicode::kUniNumeric, SplitBehavior::kIsolated));
    case Cut::kDigitRuns:
      return Result(std::make_unique<ClassSplit>(unicode::kUniNumeric, SplitBehavior::kContiguous));
    case Cut::kPunctuationRuns:
      return Result(std::make_unique<ClassSplit>(unicode::kUniPunct, SplitBehavior::kContiguous));
    case Cut::kSpelling:
      return Result(std::make_unique<ByteLevelPreTokenizer>(false, true));
  }
  return Status::Internal("no such step of a pre-tokenizer");
}

}  // namespace

std::vector<std::string_view> GgufPreKindNames() {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  return names;
}

Expected<GgufPreKind> MakeGgufPreKind(std::string_view name) {
  const Kind* const found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                         [name](const Kind& kind) { return kind.name == name; });
  if (found == std::end(kKinds)) {
    std::string known;
    for (const Kind& kind : kKinds) {
      if (!known.empty()) known += ", ";
      known += kind.name;
    }
    return Status::Unsupported(
        "pre-tokenizer \"" + Printable(name, 100) + "\" is not supported; supported are " + known,
        "tokenizer.ggml.pre");
  }
  GgufPreKind kind;
  for (const CutStep& step : found->steps) {
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<PreTokenizer> made, MakeStep(step));
    kind.bytes = kind.bytes && step.cut != Cut::kSpelling;
    kind.steps.push_back(std::move(made));
  }
  kind.nfc = (found->flags & kNfc) != 0;
  kind.ignore_merges = (found->flags & kIgnoreMerges) != 0;
  kind.add_bos = (found->flags & kBos) != 0;
  kind.add_sep = (found->flags & kSep) != 0;
  kind.mask_lstrip = (found->flags & kMask) != 0;
  return kind;
}

}  // namespace penstock::text
