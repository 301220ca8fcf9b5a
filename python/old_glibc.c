// Lets a wheel that was linked with a newer glibc run with 2.28: what that lacks, from what it has. Everything here is
// hidden inside the extension; whoever asks for one of these names in it gets this one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The first version of glibc on a processor, and what its stat() calls the layout of struct stat.
#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#define STAT_VERSION 1
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#define STAT_VERSION 0
#endif

// OLD(double, exp, (double x), (x)): exp() by its first version, which does the same in every later glibc.
#define OLD(type, name, parameters, arguments)           \
  extern type old_##name parameters;                     \
  __asm__(".symver old_" #name ", " #name "@" FIRST);    \
  type name parameters { return old_##name arguments; }

OLD(double, exp, (double x), (x))
OLD(double, log, (double x), (x))
OLD(double, log2, (double x), (x))
OLD(double, pow, (double x, double y), (x, y))
OLD(void*, dlopen, (const char* file, int mode), (file, mode))
OLD(void*, dlsym, (void* handle, const char* name), (handle, name))
OLD(int, dladdr, (const void* address, Dl_info* info), (address, info))
OLD(char*, dlerror, (void), ())
OLD(int, pthread_sigmask, (int how, const sigset_t* set, sigset_t* old), (how, set, old))
OLD(int, pthread_create, (pthread_t * thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument),
    (thread, attributes, start, argument))
OLD(int, pthread_join, (pthread_t thread, void** result), (thread, result))
OLD(int, pthread_once, (pthread_once_t * once, void (*init)(void)), (once, init))
OLD(int, __pthread_key_create, (pthread_key_t * key, void (*destroy)(void*)), (key, destroy))

// 2.33 made functions of what had been inlined calls of these.
#define OLD_STAT(name, old, stat_type, parameters, arguments)                       \
  extern int old_##old(int version, parameters, struct stat_type* result);          \
  __asm__(".symver old_" #old ", " #old "@" FIRST);                                 \
  int name(parameters, struct stat_type* result) { return old_##old(STAT_VERSION, arguments, result); }

OLD_STAT(stat, __xstat, stat, const char* path, path)
OLD_STAT(lstat, __lxstat, stat, const char* path, path)
OLD_STAT(fstat, __fxstat, stat, int descriptor, descriptor)
OLD_STAT(stat64, __xstat64, stat64, const char* path, path)
OLD_STAT(lstat64, __lxstat64, stat64, const char* path, path)
OLD_STAT(fstat64, __fxstat64, stat64, int descriptor, descriptor)

// 2.32: whether there is but one thread; nobody has to know.
char __libc_single_threaded = 0;

// 2.34; a system call since Linux 5.9.
int close_range(unsigned first, unsigned last, int flags) { return (int)syscall(436, first, last, flags); }

// 2.30: waiting by a clock of one's choice. Without it: by the wall clock, for as long as is left.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  struct timespec now, wall;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) wall.tv_nsec += 1000000000, --wall.tv_sec;
  if (wall.tv_nsec >= 1000000000) wall.tv_nsec -= 1000000000, ++wall.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &wall);
}
