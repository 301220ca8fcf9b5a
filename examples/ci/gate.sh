#!/bin/sh
# Quantizes $MODEL and checks the result: what both workflows run. Leaves check.xml and check.md. Exit code 5: a limit is not met.
set -eu
: "${MODEL:=examples/digits/model.onnx}" "${DATA:=examples/digits/digits.npz}" "${OUT:=model.int8.onnx}"
: "${LIMITS:=--max-size 50% --max-loss 0.01 --max-accuracy-drop 1%}" "${LOCK:=seqto.lock.json}"
seqto quantize "$MODEL" -o "$OUT" --data "$DATA" --samples 64
against=
[ -f "$LOCK" ] && against="--against $LOCK"
# shellcheck disable=SC2086  # flags are words
exec seqto check "$OUT" --reference "$MODEL" --data "$DATA" $LIMITS $against --no-latency --junit check.xml --markdown check.md
