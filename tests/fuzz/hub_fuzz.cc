// A reference as a user types it, up to the first NUL, and behind it a repository's list of files
// as a hub sends it: no path leads out of the repository, and only files of the list are chosen.
#include <algorithm>
#include <string>

#include "base/status.h"
#include "fuzz_util.h"
#include "hub/file_choice.h"
#include "hub/listing.h"
#include "hub/reference.h"

namespace penstock {
namespace {

void CheckListing(const hub::RepositoryListing& listing) {
  for (const auto& [file, bytes] : listing.files) {
    PENSTOCK_CHECK(!file.starts_with('/') && file.find('\\') == std::string::npos);
    PENSTOCK_CHECK(("/" + file + "/").find("/../") == std::string::npos);
    hub::QuantisationOf(file);
  }
  const auto again = hub::RepositoryListing::Parse(listing.ToJson());
  // Bytes that are not UTF-8 do not come back as they were, which no JSON text has.
  PENSTOCK_CHECK(again.ok() && again->files == listing.files);
}

void CheckChoice(const hub::RepositoryListing& listing, const hub::ModelReference& reference,
                 bool tokens) {
  const auto choice = hub::ChooseFiles(listing, reference, tokens);
  if (!choice.ok()) {
    PENSTOCK_CHECK(!choice.status().message().empty());
    return;
  }
  PENSTOCK_CHECK(!choice->files.empty());
  for (const std::string& file : choice->files) PENSTOCK_CHECK(listing.Has(file));
  if (choice->format != hub::ModelFormat::kGguf) return;
  for (const std::string& file : choice->files) PENSTOCK_CHECK(hub::IsModelFile(file));
  if (reference.file.empty()) return;
  PENSTOCK_CHECK(std::count(choice->files.begin(), choice->files.end(), reference.file) == 1);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;  // NOLINT
  fuzz::Input input(data, size);
  const std::string text(input.Part());
  const auto reference = hub::ModelReference::ParseHub(text);
  if (reference.ok()) {
    const auto again = hub::ModelReference::ParseHub(reference->Text());
    PENSTOCK_CHECK(again.ok() && again->Text() == reference->Text());
    PENSTOCK_CHECK(reference->file.empty() || hub::IsRepositoryPath(reference->file));
  }
  const auto listing = hub::RepositoryListing::Parse(std::string(input.Rest()));
  if (!listing.ok()) return 0;
  CheckListing(*listing);
  const auto plain = *hub::ModelReference::ParseHub("a/b");
  for (const bool tokens : {false, true}) {
    CheckChoice(*listing, plain, tokens);
    if (reference.ok()) CheckChoice(*listing, *reference, tokens);
  }
  return 0;
}
