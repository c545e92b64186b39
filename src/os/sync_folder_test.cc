#include "os/sync_folder.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(SyncFolderOf, TakesAFolderThatIsThere) {
  EXPECT_TRUE(SyncFolderOf("/tmp/a-name-that-need-not-be-there"));
  EXPECT_TRUE(SyncFolderOf("relative"));
  EXPECT_FALSE(SyncFolderOf("/nowhere/at/all"));
}

}  // namespace
}  // namespace penstock
