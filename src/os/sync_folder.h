// Makes names on the disk durable: that a file was created, renamed or removed survives a loss of
// power only once its folder is written.
#pragma once

#include <string>

namespace penstock {

// Writes the folder that holds `path`. False: it cannot be written.
bool SyncFolderOf(const std::string& path);

}  // namespace penstock
