// Room: base. A process gives up what it does not need before it runs a stranger's model.
#pragma once

#include <filesystem>
#include <span>

namespace seqto {

// What the system holds the process to. False: it may do as before.
struct Confinement {
  bool writing = false;  // files are made, changed and removed in the given folders alone (Landlock, Linux 5.13)
  bool network = false;  // no socket is opened any more (seccomp)
};

// Gives up for good: to write outside `writable` and what is below (and /dev/null), to open sockets, to gain rights by
// a program that gives some, to signal what it did not start (Linux 6.12). Its files stay smaller than the machine's
// memory. Temporary files go to the last of `writable`. It reads as before, and descriptors that are open stay what
// they are.
//
// To be called while the process has one thread: Landlock holds the caller and what it starts. Does what the kernel
// allows, and returns that; never throws.
Confinement confine_process(std::span<const std::filesystem::path> writable);

// What confine_process() achieved in this process.
Confinement confinement();

}  // namespace seqto
