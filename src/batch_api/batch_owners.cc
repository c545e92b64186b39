// Whose files and batches are whose: keys, administrators, and keys that are gone.
#include <set>

#include "batch_api/batch_runner.h"
#include "frontend/api_keys.h"
#include "frontend/key_ring.h"
#include "log/log.h"

namespace penstock::batch_api {

Status BatchRunner::OpenStores() {
  PENSTOCK_ASSIGN_OR_RETURN(
      files_, jobs::FileStore::Open(options_.batch_folder, options_.batch_folder_bytes));
  PENSTOCK_ASSIGN_OR_RETURN(batches_, jobs::BatchStore::Open(options_.batch_folder));
  const auto owner_of = [this](const std::string& owner) {
    return jobs::OwnerKey::IsName(owner) ? owner_key_.IdOf(owner) : owner;
  };
  PENSTOCK_RETURN_IF_ERROR(files_->ChangeOwners(owner_of));
  PENSTOCK_RETURN_IF_ERROR(batches_->ChangeOwners(owner_of));
  jobs::RemoveUnusedOutputs(files_.get(), *batches_);
  for (const jobs::Batch& batch : batches_->ListUnfinished()) {
    if (batch.output_file_id.empty()) files_->KeepPlacesAgain(batch.id, batch.owner, kOutputs);
  }
  return Status::Ok();
}

std::string BatchRunner::OwnerOf(const http::HttpRequest& request) const {
  if (request.key_number == 0) return "";
  return owner_key_.IdOf(frontend::OwnerNameOf(frontend::ApiKeys::KeyOf(request)));
}

bool BatchRunner::IsAdmin(const http::HttpRequest& request) const {
  return !keys_->Get()->admins.empty() && request.context.rules_models;
}

std::vector<jobs::StoredFile> BatchRunner::FilesOfGoneKeys() const {
  const auto sets = keys_->Get();
  std::set<std::string> owners;
  if (!sets->Required()) owners.insert("");
  for (const frontend::ApiKeys* const keys : {&sets->users, &sets->bulk, &sets->admins}) {
    for (const std::string& name : keys->owner_names()) owners.insert(owner_key_.IdOf(name));
  }
  return files_->ListIf([&](const jobs::StoredFile& file) { return !owners.contains(file.owner); });
}

void BatchRunner::TellOfGoneKeys() const {
  const std::vector<jobs::StoredFile> files = FilesOfGoneKeys();
  if (files.empty()) return;
  uint64_t bytes = 0;
  for (const jobs::StoredFile& file : files) bytes += file.bytes;
  LogWarn(
      "{} files with {} bytes in {} are of keys that are gone; with a key of an administrator "
      "GET /v1/files?owner=gone lists them, DELETE /v1/files/ID?owner=gone deletes one",
      files.size(), bytes, options_.batch_folder);
}

}  // namespace penstock::batch_api
