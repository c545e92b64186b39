#include "frontend/key_ring.h"

#include <utility>

namespace penstock::frontend {
namespace {

Status AddKeys(const std::vector<std::string>& keys, const char* flag, const char* field,
               ApiKeys* to) {
  for (const std::string& key : keys) {
    if (const Status status = CheckApiKey(key); !status.ok()) {
      return Status::InvalidArgument(std::string(flag) + ": " + status.message(), field);
    }
    to->Add(key);
  }
  return Status::Ok();
}

Status AddFiles(const std::vector<std::string>& files, const char* field, ApiKeys* to) {
  for (const std::string& file : files) {
    if (const Status status = to->AddFile(file); !status.ok()) {
      return Status::InvalidArgument(status.message(), field);
    }
  }
  return Status::Ok();
}

}  // namespace

KeyRights KeySets::RightsOf(std::string_view key) const {
  if (key.empty()) return {};
  const KeyDigest digest = DigestOfKey(key);
  const size_t user = users.Find(digest);
  const size_t bulk_key = bulk.Find(digest);
  const size_t admin_key = admins.Find(digest);
  KeyRights rights{.bulk = bulk_key != 0, .admin = admin_key != 0, .digest = digest};
  rights.known = user != 0 || rights.bulk || rights.admin;
  size_t number = 0;
  if (user != 0) {
    number = user;
    rights.weight = users.weight(user);
  } else if (rights.bulk) {
    number = users.size() + bulk_key;
    rights.weight = bulk.weight(bulk_key);
  } else if (rights.admin) {
    number = users.size() + bulk.size() + admin_key;
    rights.weight = admins.weight(admin_key);
  }
  rights.number = static_cast<int32_t>(number);
  return rights;
}

Expected<std::shared_ptr<KeyRing>> KeyRing::Make(const http::ServerOptions& options) {
  std::shared_ptr<KeyRing> ring(new KeyRing);
  PENSTOCK_RETURN_IF_ERROR(
      AddKeys(options.api_keys, "--api-key", "api_keys", &ring->of_flags_.users));
  PENSTOCK_RETURN_IF_ERROR(
      AddKeys(options.bulk_api_keys, "--bulk-api-key", "bulk_api_keys", &ring->of_flags_.bulk));
  PENSTOCK_RETURN_IF_ERROR(AddKeys(options.admin_api_keys, "--admin-api-key", "admin_api_keys",
                                   &ring->of_flags_.admins));
  ring->user_files_ = options.api_key_files;
  ring->bulk_files_ = options.bulk_api_key_files;
  ring->admin_files_ = options.admin_api_key_files;
  PENSTOCK_RETURN_IF_ERROR(ring->Reload());
  return ring;
}

Status KeyRing::Reload() {
  auto sets = std::make_shared<KeySets>(of_flags_);
  PENSTOCK_RETURN_IF_ERROR(AddFiles(user_files_, "api_key_files", &sets->users));
  PENSTOCK_RETURN_IF_ERROR(AddFiles(bulk_files_, "bulk_api_key_files", &sets->bulk));
  PENSTOCK_RETURN_IF_ERROR(AddFiles(admin_files_, "admin_api_key_files", &sets->admins));
  const std::lock_guard lock(mutex_);
  sets_ = std::move(sets);
  return Status::Ok();
}

std::shared_ptr<const KeySets> KeyRing::Get() const {
  const std::lock_guard lock(mutex_);
  return sets_;
}

}  // namespace penstock::frontend
