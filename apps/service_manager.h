// What a service manager that waits for it, such as systemd with Type=notify, is told of the state
// of the program.
// Source: the protocol of sd_notify(3): a datagram of VARIABLE=VALUE lines to the Unix socket that
// the variable NOTIFY_SOCKET names; '@' in front stands for an abstract one.
#pragma once

#include <string_view>

namespace penstock {

// "READY=1", "STOPPING=1". Does nothing without NOTIFY_SOCKET; a warning if it cannot be told.
void TellServiceManager(std::string_view state);

}  // namespace penstock
