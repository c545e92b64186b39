// Loads a tokenizer.json: added tokens, post-processor and decoder here, the other sections in
// load_text_stages.cc and load_model.cc.
#include "text/tokenizer_loader.h"

#include <map>

#include "base/printable.h"
#include "text/byte_level.h"
#include "unicode/utf8.h"

namespace penstock::text {
namespace {

constexpr size_t kMaxFileBytes = size_t(256) << 20;

Expected<std::vector<int32_t>> LoadIds(const JsonFields& fields) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("ids"));
  std::vector<int32_t> ids;
  for (JsonFields::Element element : array) {
    int64_t id = 0;
    if (!element.Get(&id) || id < 0 || id > kMaxTokenId || ids.size() >= 64) {
      return JsonFields::Wrong(fields.PathOf("ids"), "at most 64 ids");
    }
    ids.push_back(int32_t(id));
  }
  return ids;
}

Status LoadTemplate(const JsonFields& fields, std::string_view name, bool pair,
                    std::vector<TemplatePart>* out, size_t* added) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array(name));
  PENSTOCK_ASSIGN_OR_RETURN(JsonFields specials, fields.Object("special_tokens"));
  if (array.size() > kMaxSequenceParts) {
    return Status::Unsupported("template is too long", fields.PathOf(name));
  }
  *added = 0;
  for (JsonFields::Element element : array) {
    const std::string path = fields.PathOf(name) + "[" + std::to_string(out->size()) + "]";
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields entry, JsonFields::Of(element, path));
    const bool is_text = entry.Has("Sequence");
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields piece,
                              entry.Object(is_text ? "Sequence" : "SpecialToken"));
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view id, piece.String("id"));
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t type_id, piece.Integer("type_id", 1 << 20));
    TemplatePart part;
    part.type_id = int32_t(type_id);
    if (is_text) {
      if (id != "A" && id != "B") return JsonFields::Wrong(piece.PathOf("id"), "A or B");
      part.sequence = id == "B";
      if (part.sequence == 1 && !pair) {
        return Status::InvalidArgument("names B in the template of one text", piece.PathOf("id"));
      }
      // Truncation counts each text once.
      for (const TemplatePart& before : *out) {
        if (before.sequence == part.sequence) {
          return Status::Unsupported("names a text twice", piece.PathOf("id"));
        }
      }
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(JsonFields token, specials.Object(id));
      PENSTOCK_ASSIGN_OR_RETURN(part.ids, LoadIds(token));
      *added += part.ids.size();
    }
    out->push_back(std::move(part));
  }
  return {};
}

// ["[SEP]", 102]
Expected<int32_t> LoadTokenPair(const JsonFields& fields, std::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array(name));
  int64_t id = 0;
  if (array.size() != 2 || !array[1].Get(&id) || id < 0 || id > kMaxTokenId) {
    return JsonFields::Wrong(fields.PathOf(name), "a token and its id");
  }
  return int32_t(id);
}

Status LoadFixedTemplate(const JsonFields& fields, bool roberta, PostProcessor* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const int32_t sep, LoadTokenPair(fields, "sep"));
  PENSTOCK_ASSIGN_OR_RETURN(const int32_t cls, LoadTokenPair(fields, "cls"));
  const int32_t second = roberta ? 0 : 1;
  out->single = {{-1, 0, {cls}}, {0, 0, {}}, {-1, 0, {sep}}};
  out->pair = out->single;
  if (roberta) out->pair.push_back({-1, 0, {sep}});
  out->pair.push_back({1, second, {}});
  out->pair.push_back({-1, second, {sep}});
  out->added_single = 2;
  out->added_pair = roberta ? 4 : 3;
  out->roberta = roberta;
  out->has_template = true;
  return {};
}

Status LoadTrim(const JsonFields& fields, PostProcessor* out) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool trim, fields.BoolOr("trim_offsets", true));
  PENSTOCK_ASSIGN_OR_RETURN(const bool prefix, fields.BoolOr("add_prefix_space", true));
  if (trim) out->trims.push_back({prefix});
  return {};
}

}  // namespace

Status LoadPostProcessor(const JsonFields& fields, const Nesting& nesting, PostProcessor* out) {
  PENSTOCK_RETURN_IF_ERROR(nesting.Enter(fields));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view type, fields.String("type"));
  if (out->has_template) {
    return Status::Unsupported("post_processor after a template", fields.PathOf("type"));
  }
  if (type == "ByteLevel") return LoadTrim(fields, out);
  if (type == "BertProcessing") return LoadFixedTemplate(fields, false, out);
  if (type == "RobertaProcessing") {
    PENSTOCK_RETURN_IF_ERROR(LoadTrim(fields, out));
    return LoadFixedTemplate(fields, true, out);
  }
  if (type == "TemplateProcessing") {
    PENSTOCK_RETURN_IF_ERROR(
        LoadTemplate(fields, "single", false, &out->single, &out->added_single));
    PENSTOCK_RETURN_IF_ERROR(LoadTemplate(fields, "pair", true, &out->pair, &out->added_pair));
    out->has_template = true;
    return {};
  }
  if (type == "Sequence") {
    PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("processors"));
    PENSTOCK_RETURN_IF_ERROR(nesting.EnterSequence(fields, "processors", array.size()));
    const Nesting inner(&nesting);
    size_t index = 0;
    for (JsonFields::Element element : array) {
      const std::string path = fields.PathOf("processors") + "[" + std::to_string(index++) + "]";
      PENSTOCK_ASSIGN_OR_RETURN(JsonFields part, JsonFields::Of(element, path));
      PENSTOCK_RETURN_IF_ERROR(LoadPostProcessor(part, inner, out));
    }
    return {};
  }
  return Status::Unsupported("post_processor type \"" + Shown(type) + "\"", fields.PathOf("type"));
}

namespace {

Status LoadMetaspaceDecoder(const JsonFields& fields, DecoderChain* out) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view replacement, fields.String("replacement"));
  if (unicode::Utf8Count(replacement) != 1) {
    return JsonFields::Wrong(fields.PathOf("replacement"), "one character");
  }
  PENSTOCK_ASSIGN_OR_RETURN(bool drop_first, fields.BoolOr("add_prefix_space", true));
  if (fields.Has("prepend_scheme")) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view scheme, fields.String("prepend_scheme"));
    drop_first = drop_first && scheme != "never";
  }
  out->push_back(MakeMetaspaceDecoder(std::string(replacement), drop_first));
  return {};
}

Status LoadStripDecoder(const JsonFields& fields, DecoderChain* out) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view content, fields.String("content"));
  if (unicode::Utf8Count(content) != 1) {
    return JsonFields::Wrong(fields.PathOf("content"), "one character");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t start, fields.Integer("start", 1 << 20));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t stop, fields.Integer("stop", 1 << 20));
  out->push_back(MakeStripDecoder(std::string(content), size_t(start), size_t(stop)));
  return {};
}

Status LoadDecoderSequence(const JsonFields& fields, const Nesting& nesting, DecoderChain* out) {
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("decoders"));
  PENSTOCK_RETURN_IF_ERROR(nesting.EnterSequence(fields, "decoders", array.size()));
  const Nesting inner(&nesting);
  size_t index = 0;
  for (JsonFields::Element element : array) {
    const std::string path = fields.PathOf("decoders") + "[" + std::to_string(index++) + "]";
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields part, JsonFields::Of(element, path));
    PENSTOCK_RETURN_IF_ERROR(LoadDecoder(part, inner, out));
  }
  return {};
}

}  // namespace

Status LoadDecoder(const JsonFields& fields, const Nesting& nesting, DecoderChain* out) {
  PENSTOCK_RETURN_IF_ERROR(nesting.Enter(fields));
  PENSTOCK_ASSIGN_OR_RETURN(std::string_view type, fields.String("type"));
  if (type == "Sequence") return LoadDecoderSequence(fields, nesting, out);
  if (type == "Metaspace") return LoadMetaspaceDecoder(fields, out);
  if (type == "Strip") return LoadStripDecoder(fields, out);
  if (type == "ByteLevel") {
    out->push_back(MakeByteLevelDecoder());
  } else if (type == "ByteFallback") {
    out->push_back(MakeByteFallbackDecoder());
  } else if (type == "Fuse") {
    out->push_back(MakeFuseDecoder());
  } else if (type == "WordPiece") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view prefix, LoadAffix(fields, "prefix"));
    PENSTOCK_ASSIGN_OR_RETURN(const bool cleanup, fields.Bool("cleanup"));
    out->push_back(MakeWordPieceDecoder(std::string(prefix), cleanup));
  } else if (type == "BPEDecoder") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view suffix, LoadAffix(fields, "suffix"));
    out->push_back(MakeBpeDecoder(std::string(suffix)));
  } else if (type == "Replace") {
    std::string regex_text;
    PENSTOCK_ASSIGN_OR_RETURN(regex::Regex regex, LoadPattern(fields, "pattern", &regex_text));
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view content, fields.String("content"));
    out->push_back(MakeReplaceDecoder(std::move(regex), std::string(content)));
  } else if (type == "CTC") {
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view pad, LoadAffix(fields, "pad_token"));
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view delimiter,
                              LoadAffix(fields, "word_delimiter_token"));
    PENSTOCK_ASSIGN_OR_RETURN(const bool cleanup, fields.Bool("cleanup"));
    out->push_back(MakeCtcDecoder(std::string(pad), std::string(delimiter), cleanup));
  } else {
    return Status::Unsupported("decoder type \"" + Shown(type) + "\"", fields.PathOf("type"));
  }
  return {};
}

namespace {

// Ids are those of the model where it knows the token, else the next free ones: the file's own
// numbers do not count (the reference ignores them too).
Status LoadAddedTokens(const JsonFields& fields, const Vocabulary& vocabulary,
                       std::vector<AddedToken>* out) {
  if (!fields.Has("added_tokens")) return {};
  PENSTOCK_ASSIGN_OR_RETURN(JsonArray array, fields.Array("added_tokens"));
  int64_t next_id = int64_t(vocabulary.size());
  std::map<std::string_view, size_t> index_of;  // by content, which lies in the parsed file
  size_t index = 0;
  for (JsonFields::Element element : array) {
    const std::string path = "added_tokens[" + std::to_string(index++) + "]";
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields entry, JsonFields::Of(element, path));
    AddedToken token;
    PENSTOCK_ASSIGN_OR_RETURN(std::string_view content, entry.String("content"));
    token.content = content;
    PENSTOCK_ASSIGN_OR_RETURN(token.special, entry.BoolOr("special", false));
    PENSTOCK_ASSIGN_OR_RETURN(token.single_word, entry.BoolOr("single_word", false));
    PENSTOCK_ASSIGN_OR_RETURN(token.lstrip, entry.BoolOr("lstrip", false));
    PENSTOCK_ASSIGN_OR_RETURN(token.rstrip, entry.BoolOr("rstrip", false));
    PENSTOCK_ASSIGN_OR_RETURN(token.normalized, entry.BoolOr("normalized", !token.special));
    if (content.empty()) continue;
    const auto seen = index_of.find(content);
    if (seen != index_of.end()) {  // the later entry's settings count
      token.id = (*out)[seen->second].id;
      (*out)[seen->second] = std::move(token);
      continue;
    }
    token.id = vocabulary.Find(content);
    if (token.id < 0) {
      if (next_id > kMaxTokenId) return Status::Unsupported("too many added tokens", path);
      token.id = int32_t(next_id++);
    }
    index_of.emplace(content, out->size());
    out->push_back(std::move(token));
  }
  return {};
}

}  // namespace

Expected<TokenizerParts> LoadTokenizerParts(std::string_view json) {
  if (json.size() > kMaxFileBytes) {
    return Status::InvalidArgument("tokenizer.json is larger than 256 MiB");
  }
  const auto document = JsonDocument::Parse(json);
  if (!document.ok()) return document.status().Annotate("tokenizer.json");
  PENSTOCK_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(document->root(), ""));
  TokenizerParts parts;
  if (fields.Has("normalizer")) {
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields section, fields.Object("normalizer"));
    PENSTOCK_ASSIGN_OR_RETURN(parts.normalizer, LoadNormalizer(section, Nesting()));
  }
  if (fields.Has("pre_tokenizer")) {
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields section, fields.Object("pre_tokenizer"));
    PENSTOCK_RETURN_IF_ERROR(LoadPreTokenizers(section, Nesting(), &parts.pre_tokenizers));
  }
  PENSTOCK_ASSIGN_OR_RETURN(JsonFields model, fields.Object("model"));
  // A byte-level model reads bytes directly if the last pre-tokenizer would have spelt them out.
  ByteLevelPreTokenizer* byte_level =
      parts.pre_tokenizers.empty()
          ? nullptr
          : dynamic_cast<ByteLevelPreTokenizer*>(parts.pre_tokenizers.back().get());
  const bool bytes = byte_level != nullptr && ModelCanReadBytes(model);
  if (bytes) byte_level->set_keep_bytes(true);
  PENSTOCK_ASSIGN_OR_RETURN(parts.model, LoadModel(model, bytes));
  PENSTOCK_RETURN_IF_ERROR(LoadAddedTokens(fields, parts.model->vocabulary(), &parts.added));
  if (fields.Has("post_processor")) {
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields section, fields.Object("post_processor"));
    PENSTOCK_RETURN_IF_ERROR(LoadPostProcessor(section, Nesting(), &parts.post));
  }
  if (fields.Has("decoder")) {
    PENSTOCK_ASSIGN_OR_RETURN(JsonFields section, fields.Object("decoder"));
    PENSTOCK_RETURN_IF_ERROR(LoadDecoder(section, Nesting(), &parts.decoder));
  } else {
    parts.decoder.push_back(MakeJoinWithSpaces());
  }
  return parts;
}

}  // namespace penstock::text
