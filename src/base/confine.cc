#include "seqto/confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/descriptor.h"

namespace seqto {
namespace {

Confinement in_force;

// --- Landlock, as the kernel's documentation numbers it: the headers of older systems lack the newer names.

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // on every processor
constexpr uint32_t kAskVersion = 1, kBeneathPath = 1;

enum Right : uint64_t {
  kWriteFile = 1 << 1,
  kRemoveFolder = 1 << 4,
  kRemoveFile = 1 << 5,
  kMakeCharacterDevice = 1 << 6,
  kMakeFolder = 1 << 7,
  kMakeFile = 1 << 8,
  kMakeSocket = 1 << 9,
  kMakeFifo = 1 << 10,
  kMakeBlockDevice = 1 << 11,
  kMakeLink = 1 << 12,
  kMoveAcross = 1 << 13,  // version 2; denied by version 1 by itself
  kTruncate = 1 << 14,    // version 3
};
constexpr uint64_t kScopeSignals = 1 << 1;  // version 6

struct Ruleset {
  uint64_t files = 0, network = 0, scoped = 0;
};
struct __attribute__((packed)) BeneathPath {
  uint64_t allowed;
  int32_t folder;
};

bool allow(const Descriptor& ruleset, const std::filesystem::path& path, uint64_t rights) {
  const Descriptor opened(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (opened.get() < 0) return false;
  const BeneathPath rule{rights, opened.get()};
  return ::syscall(kAddRule, ruleset.get(), kBeneathPath, &rule, 0) == 0;
}

bool confine_writing(std::span<const std::filesystem::path> writable) {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) return false;
  uint64_t inside = kWriteFile | kRemoveFolder | kRemoveFile | kMakeFolder | kMakeFile;
  if (version >= 2) inside |= kMoveAcross;
  if (version >= 3) inside |= kTruncate;
  Ruleset held;
  held.files = inside | kMakeCharacterDevice | kMakeSocket | kMakeFifo | kMakeBlockDevice | kMakeLink;
  if (version >= 6) held.scoped = kScopeSignals;
  // A kernel refuses fields that it does not know.
  const size_t known = version >= 6 ? sizeof held : sizeof held.files;
  const Descriptor ruleset(static_cast<int>(::syscall(kCreateRuleset, &held, known, 0)));
  if (ruleset.get() < 0) return false;
  for (const auto& folder : writable)
    if (!allow(ruleset, folder, inside)) return false;
  allow(ruleset, "/dev/null", kWriteFile);
  return ::syscall(kRestrictSelf, ruleset.get(), 0) == 0;
}

// --- seccomp

#if defined(__x86_64__)
constexpr uint32_t kProcessor = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kProcessor = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kProcessor = 0;
#endif

bool confine_network() {
  if (kProcessor == 0) return false;
  constexpr uint32_t kOtherNumbers = 0x40000000;  // x86-64 has a second set of calls above it
  constexpr uint32_t kIoUring = 425;              // opens sockets too
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  const auto load = [](uint32_t at) { return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, at}; };
  // Skips so many instructions where the comparison holds.
  const auto skip_if = [](uint16_t comparison, uint32_t with, uint8_t skipped) {
    return sock_filter{static_cast<uint16_t>(BPF_JMP | comparison | BPF_K), skipped, 0, with};
  };
  const auto end = [](uint32_t result) { return sock_filter{BPF_RET | BPF_K, 0, 0, result}; };
  std::array program{
      load(offsetof(seccomp_data, arch)),
      skip_if(BPF_JEQ, kProcessor, 1),
      end(kRefuse),
      load(offsetof(seccomp_data, nr)),
      skip_if(BPF_JGE, kOtherNumbers, 3),
      skip_if(BPF_JEQ, SYS_socket, 2),
      skip_if(BPF_JEQ, kIoUring, 1),
      end(SECCOMP_RET_ALLOW),
      end(kRefuse),
  };
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

void limit_files() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  rlimit limit{};
  if (pages <= 0 || bytes <= 0 || ::getrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  const rlim_t memory = static_cast<rlim_t>(pages) * static_cast<rlim_t>(bytes);
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max <= memory) return;
  limit.rlim_cur = limit.rlim_max = memory;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, SIG_IGN);  // a write that fails says why
}

}  // namespace

Confinement confine_process(std::span<const std::filesystem::path> writable) {
  if (!writable.empty()) ::setenv("TMPDIR", writable.back().c_str(), 1);
  limit_files();
  // Both below ask for it.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return in_force;
  in_force.writing = confine_writing(writable);
  in_force.network = confine_network();
  return in_force;
}

Confinement confinement() { return in_force; }

}  // namespace seqto
