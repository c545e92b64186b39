// Salts of caches: requests with different salts share no entry, so that the time of an answer, or
// what it says of cached tokens, tells nothing of the texts of others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::cache {

// A secret for CacheSaltOf: random, another one in each call.
std::string NewCacheSecret();

// The salt of a client, by a keyed hash: without the secret, no text or name that gives the same
// can be found. 0 if there is no secret or no client: the salt that all share. Other salts are
// even; the odd one behind each is for texts whose keys are rotated otherwise
// (CachedSequence::long_rope).
uint64_t CacheSaltOf(std::string_view secret, std::string_view client);

// Parts the requests of a salt further, by a text of theirs; "": as they are.
uint64_t JoinCacheSalt(uint64_t salt, std::string_view text);

}  // namespace penstock::cache
