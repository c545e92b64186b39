// ModelReference: a user's name of a model.
//
//   ./folder, model.gguf          on this machine
//   owner/name                    a repository on the Hugging Face hub
//   owner/name:Q4_K_M             its GGUF files of one quantisation
//   owner/name/folder/file.gguf   that file of it
//
// Behind each of the last three may stand @revision; :QUANT and @revision in either order. Before
// them may stand hf.co/ or huggingface.co/, with or without https://, so that the address of a
// repository's page is taken as it is copied: with /tree/REVISION, or of a file with
// /blob/REVISION/FILE or /resolve/REVISION/FILE.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::hub {

struct ModelReference {
  static constexpr size_t kBytesMax = 4096;

  std::string path;  // a local folder or GGUF file; then the others are empty
  std::string owner;
  std::string name;
  std::string revision;      // branch, tag or commit; "main" if not given
  std::string quantisation;  // in upper case; "" if not given
  std::string file;          // of the repository, ends in ".gguf"; "" if not given

  bool local() const { return !path.empty(); }
  std::string repository() const { return owner + "/" + name; }
  // The reference without its revision: "owner/name:Q4_K_M".
  std::string Short() const;
  // With the revision, unless it is main.
  std::string Text() const;

  // A folder or a GGUF file that exists is always taken as one; "~/" is the home folder.
  // kInvalidArgument lists the forms; kNotFound: a path that does not exist.
  static Expected<ModelReference> Parse(const std::string& text);
  // The same without a look at the disk: never local, "./x" is an error.
  static Expected<ModelReference> ParseHub(const std::string& text);
};

// "~/" at the start of a path, where a shell left it, as the home folder.
std::string ExpandHome(const std::string& path);

// Whether a path may stand in a repository: parts with '/' between them, none of them empty, "." or
// "..", or longer than a file's name; no backslash, no control character, 1 to 1024 bytes.
bool IsRepositoryPath(std::string_view path);

}  // namespace penstock::hub
