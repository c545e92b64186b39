// Names on the disk: a file that was created, renamed or removed is so after a loss of power once
// its folder is written.
#pragma once

#include <string>

namespace penstock {

// Writes the folder that holds `path`. False: it cannot be written.
bool SyncFolderOf(const std::string& path);

}  // namespace penstock
