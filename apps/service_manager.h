// Tells a service manager, such as systemd with Type=notify, the state of the program.
// Source: the protocol of sd_notify(3): a datagram of VARIABLE=VALUE lines to the Unix socket that
// the variable NOTIFY_SOCKET names; '@' in front stands for an abstract one.
#pragma once

#include <string_view>

namespace penstock::cli {

// "READY=1", "STOPPING=1". Does nothing without NOTIFY_SOCKET; logs a warning on failure.
void TellServiceManager(std::string_view state);

}  // namespace penstock::cli
