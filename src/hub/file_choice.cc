#include "hub/file_choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

#include "base/printable.h"

namespace penstock::hub {
namespace {

constexpr std::string_view kWeights = "model.safetensors";
constexpr size_t kPartsMax = 1024;  // as files/gguf.h has it
constexpr size_t kNamesShown = 40;

// Small and close to the original first, then what is larger. All of types that Penstock reads.
constexpr std::array<std::string_view, 16> kOrder = {
    "Q4_K_M", "Q4_K_S", "Q4_K_L", "UD-Q4_K_XL", "Q4_0", "Q4_1", "Q5_K_M", "Q5_K_S",
    "Q5_K_L", "Q5_0",   "Q5_1",   "Q6_K",       "Q8_0", "BF16", "F16",    "F32",
};

// Begins of quantisations whose tensors are of types that Penstock does not read.
constexpr std::string_view kNotRead[] = {"IQ", "Q1_", "Q2_", "Q3_", "TQ", "MXFP", "NVFP", "Q4_0_"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordByte(char c) { return IsDigit(c) || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return out;
}

bool EndsInGguf(std::string_view file) {
  return file.size() > 5 && Upper(file.substr(file.size() - 5)) == ".GGUF";
}

std::string_view BaseName(std::string_view file) { return file.substr(file.rfind('/') + 1); }

// Where one part of a split model stands: "x-00002-of-00003.gguf".
struct PartName {
  std::string_view stem;
  size_t number = 0;  // from 1
  size_t count = 0;
};

std::optional<PartName> PartOf(std::string_view file) {
  constexpr size_t kEnd = std::string_view("-00001-of-00001.gguf").size();
  if (file.size() <= kEnd || !EndsInGguf(file)) return std::nullopt;
  const std::string_view end = file.substr(file.size() - kEnd);
  const auto digits = [&](size_t at) {
    return std::all_of(end.begin() + static_cast<long>(at), end.begin() + static_cast<long>(at + 5),
                       IsDigit);
  };
  if (end[0] != '-' || !digits(1) || end.substr(6, 4) != "-of-" || !digits(10)) return std::nullopt;
  PartName part;
  part.stem = file.substr(0, file.size() - kEnd);
  std::from_chars(end.data() + 1, end.data() + 6, part.number);
  std::from_chars(end.data() + 10, end.data() + 15, part.count);
  if (part.number == 0 || part.number > part.count || part.count > kPartsMax) return std::nullopt;
  return part;
}

// `text` is upper case. If it begins with the name of a quantisation, the length of that name; else
// 0.
size_t QuantisationLength(std::string_view text) {
  size_t length = 0;
  for (const std::string_view word : {"BF16", "FP16", "FP32", "F16", "F32"}) {
    if (text.starts_with(word)) length = word.size();
  }
  for (const std::string_view word : {"IQ", "TQ", "Q", "MXFP", "NVFP"}) {
    if (length > 0 || !text.starts_with(word) || text.size() <= word.size()) continue;
    if (!IsDigit(text[word.size()])) continue;
    length = word.size();
    while (length < text.size() && IsWordByte(text[length])) ++length;
  }
  // A word of its own: "F16" is not in "F1600".
  return length < text.size() && IsWordByte(text[length]) && text[length] != '_' ? 0 : length;
}

// The last quantisation in one name.
std::string QuantisationIn(const std::string& name) {
  std::string found;
  for (size_t at = 0; at < name.size(); ++at) {
    if (at > 0 && IsWordByte(name[at - 1]) && name[at - 1] != '_') continue;
    const size_t length = QuantisationLength(std::string_view(name).substr(at));
    if (length == 0) continue;
    found = name.substr(at, length);
    while (found.ends_with('_')) found.pop_back();
    if (found == "FP16" || found == "FP32") found.erase(1, 1);
    if (at >= 3 && name.compare(at - 3, 3, "UD-") == 0) found.insert(0, "UD-");
    at += length - 1;
  }
  return found;
}

// GGUF files that are not a language model by themselves: encoders of images, statistics.
bool IsBesideModel(std::string_view file) {
  const std::string name = Upper(BaseName(file));
  return name.find("MMPROJ") != std::string::npos ||
         (name.find("IMATRIX") != std::string::npos && QuantisationOf(file).empty());
}

std::string NameOf(const GgufFiles& model) {
  return model.quantisation.empty() ? model.files.front() : model.quantisation;
}

std::string Listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == kNamesShown) return out + ", and " + std::to_string(names.size() - i) + " more";
    out += (out.empty() ? "" : ", ") + Printable(names[i], 200);
  }
  return out;
}

std::string FileList(const std::vector<GgufFiles>& models) {
  std::vector<std::string> names;
  for (const GgufFiles& model : models) names.push_back(model.files.front());
  return Listed(names);
}

size_t Depth(const GgufFiles& model) {
  const std::string& file = model.files.front();
  return static_cast<size_t>(std::count(file.begin(), file.end(), '/'));
}

Status Check(const GgufFiles& model, const std::string& repository) {
  if (model.parts_missing > 0) {
    return Status::Unsupported(repository + ": of the split model " +
                                   Printable(model.files.front(), 200) + " " +
                                   std::to_string(model.parts_missing) + " parts are not there",
                               "model");
  }
  const std::string quantisation =
      model.quantisation.starts_with("UD-") ? model.quantisation.substr(3) : model.quantisation;
  for (const std::string_view begin : kNotRead) {
    if (!quantisation.starts_with(begin)) continue;
    std::string read;
    for (const std::string_view name : kOrder)
      read += (read.empty() ? "" : ", ") + std::string(name);
    return Status::Unsupported(
        repository + ": Penstock does not read quantisation " + quantisation + "; it reads " + read,
        "model");
  }
  return Status::Ok();
}

Expected<FileChoice> Chosen(const GgufFiles& model, const std::string& repository) {
  PENSTOCK_RETURN_IF_ERROR(Check(model, repository));
  return FileChoice{ModelFormat::kGguf, model.quantisation, model.files, false};
}

// Chooses, among models of one quantisation, the one that is least deep in folders.
Expected<FileChoice> OnlyOne(std::vector<GgufFiles> models, const std::string& repository) {
  size_t depth = Depth(models.front());
  for (const GgufFiles& model : models) depth = std::min(depth, Depth(model));
  std::erase_if(models, [&](const GgufFiles& model) { return Depth(model) > depth; });
  if (models.size() == 1) return Chosen(models.front(), repository);
  return Status::InvalidArgument(
      repository + " has " + std::to_string(models.size()) + " models" +
          (models.front().quantisation.empty() ? "" : " of " + models.front().quantisation) + " (" +
          FileList(models) + "); name the file: " + repository + "/" +
          Printable(models.front().files.front(), 200),
      "model");
}

std::vector<GgufFiles> OfQuantisation(const std::vector<GgufFiles>& models,
                                      std::string_view quantisation) {
  std::vector<GgufFiles> found;
  for (const GgufFiles& model : models) {
    if (Upper(model.quantisation) == quantisation) found.push_back(model);
  }
  return found;
}

Status NothingThere(const RepositoryListing& listing, const std::string& repository) {
  if (!listing.Has("config.json")) {
    return Status::Unsupported(
        repository + " has no config.json with safetensors, and no GGUF model", "model");
  }
  return Status::Unsupported(repository +
                                 " has no model.safetensors and no GGUF model; other forms of "
                                 "weights are not supported",
                             "model");
}

Expected<FileChoice> ChooseGguf(const RepositoryListing& listing, const ModelReference& reference) {
  const std::string repository = reference.repository();
  const std::vector<GgufFiles> models = GgufModelsOf(listing);
  if (!reference.file.empty()) {
    for (const GgufFiles& model : models) {
      if (std::find(model.files.begin(), model.files.end(), reference.file) != model.files.end()) {
        return Chosen(model, repository);
      }
    }
    if (listing.Has(reference.file)) {
      return Status::Unsupported(
          repository + ": " + Printable(reference.file, 200) + " is not a model by itself",
          "model");
    }
  }
  if (models.empty() && reference.file.empty() && reference.quantisation.empty()) {
    return NothingThere(listing, repository);
  }
  const std::string has =
      models.empty() ? repository + " has no GGUF model" : repository + " has: ";
  if (!reference.file.empty()) {
    return Status::NotFound("file '" + Printable(reference.file, 200) + "' is not there; " + has +
                                (models.empty() ? "" : FileList(models)),
                            "model");
  }
  if (!reference.quantisation.empty()) {
    std::vector<GgufFiles> found = OfQuantisation(models, reference.quantisation);
    if (found.empty()) found = OfQuantisation(models, "UD-" + reference.quantisation);
    if (!found.empty()) return OnlyOne(std::move(found), repository);
    return Status::NotFound("quantisation '" + reference.quantisation + "' is not there; " + has +
                                (models.empty() ? "" : QuantisationList(models)),
                            "model");
  }
  for (const std::string_view quantisation : kOrder) {
    std::vector<GgufFiles> found = OfQuantisation(models, quantisation);
    if (!found.empty()) return OnlyOne(std::move(found), repository);
  }
  if (models.size() == 1) return Chosen(models.front(), repository);
  return Status::InvalidArgument(has + QuantisationList(models) +
                                     "; none of them is chosen by default: name one, as " +
                                     repository + ":QUANT or " + repository + "/FILE.gguf",
                                 "model");
}

// Of IsWantedFile's, those that say how texts become tokens.
bool IsTokenizerFile(std::string_view file) {
  return IsWantedFile(file) && (file.starts_with("tokenizer") || file.starts_with("sentence_") ||
                                file == "config_sentence_transformers.json");
}

}  // namespace

const char* FormatName(ModelFormat format) {
  switch (format) {
    case ModelFormat::kSafetensors:
      return "safetensors";
    case ModelFormat::kGguf:
      return "gguf";
    case ModelFormat::kTokenizer:
      return "tokenizer";
  }
  return "";
}

std::string QuantisationOf(std::string_view file) {
  if (const auto part = PartOf(file))
    file = part->stem;
  else if (EndsInGguf(file))
    file.remove_suffix(5);
  while (!file.empty()) {
    const size_t slash = file.rfind('/');
    std::string found = QuantisationIn(Upper(BaseName(file)));
    if (!found.empty() || slash == std::string_view::npos) return found;
    file = file.substr(0, slash);
  }
  return "";
}

std::vector<GgufFiles> GgufModelsOf(const RepositoryListing& listing) {
  // By stem and count of parts, or by the file itself; parts by number.
  std::map<std::pair<std::string, size_t>, std::map<size_t, std::string>> groups;
  for (const auto& [file, bytes] : listing.files) {
    if (!EndsInGguf(file) || IsBesideModel(file)) continue;
    const auto part = PartOf(file);
    if (part) {
      groups[{std::string(part->stem), part->count}].emplace(part->number, file);
    } else {
      groups[{file, 0}].emplace(1, file);
    }
  }
  std::vector<GgufFiles> models;
  for (const auto& [key, parts] : groups) {
    GgufFiles model;
    bool sizes_known = true;
    for (const auto& [number, file] : parts) {
      const uint64_t bytes = listing.files.at(file);
      sizes_known &= bytes > 0;
      model.bytes += bytes;
      model.files.push_back(file);
    }
    if (!sizes_known) model.bytes = 0;
    if (key.second > 0) model.parts_missing = key.second - parts.size();
    model.quantisation = QuantisationOf(model.files.front());
    models.push_back(std::move(model));
  }
  const auto rank = [](const GgufFiles& model) {
    return std::find(kOrder.begin(), kOrder.end(), model.quantisation) - kOrder.begin();
  };
  std::stable_sort(models.begin(), models.end(), [&](const GgufFiles& a, const GgufFiles& b) {
    return std::make_tuple(rank(a), a.quantisation, a.files) <
           std::make_tuple(rank(b), b.quantisation, b.files);
  });
  return models;
}

std::span<const std::string_view> QuantisationOrder() { return kOrder; }

std::string QuantisationList(const std::vector<GgufFiles>& models) {
  std::vector<std::string> names;
  for (const GgufFiles& model : models) {
    std::string name = NameOf(model);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  return Listed(names);
}

Expected<FileChoice> ChooseFiles(const RepositoryListing& listing, const ModelReference& reference,
                                 bool tokenizer_only) {
  const bool gguf_named = !reference.file.empty() || !reference.quantisation.empty();
  const bool sharded = !listing.Has(kWeights) && listing.Has(kWeightsIndex);
  const bool safetensors = listing.Has("config.json") && (listing.Has(kWeights) || sharded);
  if (tokenizer_only && !gguf_named) {
    FileChoice choice{ModelFormat::kTokenizer, "", {}, false};
    for (const auto& [file, bytes] : listing.files) {
      if (IsTokenizerFile(file)) choice.files.push_back(file);
    }
    if (listing.Has("tokenizer.json")) return choice;
    if (GgufModelsOf(listing).empty()) {
      return Status::Unsupported(
          reference.repository() + " has no tokenizer.json and no GGUF model", "model");
    }
  }
  if (gguf_named || tokenizer_only || !safetensors) return ChooseGguf(listing, reference);
  FileChoice choice{ModelFormat::kSafetensors, "", {}, sharded};
  for (const auto& [file, bytes] : listing.files) {
    if (IsWantedFile(file)) choice.files.push_back(file);
  }
  choice.files.emplace_back(sharded ? kWeightsIndex : kWeights);
  return choice;
}

bool IsWantedFile(std::string_view file) {
  constexpr std::string_view kTop[] = {
      "config.json",
      "tokenizer.json",
      "tokenizer_config.json",
      "special_tokens_map.json",
      "generation_config.json",
      "chat_template.jinja",
      "chat_template.json",
      "modules.json",
      "config_sentence_transformers.json",
      "sentence_bert_config.json",
      "sentence_roberta_config.json",
      "sentence_distilbert_config.json",
      "sentence_camembert_config.json",
      "sentence_xlm-roberta_config.json",
  };
  if (std::find(std::begin(kTop), std::end(kTop), file) != std::end(kTop)) return true;
  // N_Kind/config.json and N_Kind/model.safetensors, the folders of modules.
  const size_t digits = file.find_first_not_of("0123456789");
  const size_t slash = file.find('/');
  if (digits == 0 || digits == std::string_view::npos || file[digits] != '_' ||
      slash == std::string_view::npos) {
    return false;
  }
  const std::string_view inside = file.substr(slash + 1);
  return inside == "config.json" || inside == kWeights;
}

bool IsModelFile(std::string_view file) {
  return IsWantedFile(file) || EndsInGguf(file) || file == kWeightsIndex ||
         (file.ends_with(".safetensors") && file.find('/') == std::string_view::npos);
}

}  // namespace penstock::hub
