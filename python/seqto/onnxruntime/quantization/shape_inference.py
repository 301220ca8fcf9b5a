"""quant_pre_process: what a model goes through before it is quantized."""
from __future__ import annotations

import typing
from pathlib import Path

from ... import _core


def quant_pre_process(
    input_model: typing.Any = None,
    output_model_path: str | Path | None = None,
    skip_optimization: bool = False,
    skip_onnx_shape: bool = False,
    skip_symbolic_shape: bool = False,
    auto_merge: bool = False,
    int_max: int = 2**31 - 1,
    guess_output_rank: bool = False,
    verbose: int = 0,
    save_as_external_data: bool = False,
    all_tensors_to_one_file: bool = False,
    external_data_location: str | None = None,
    external_data_size_threshold: int = 1024,
    **deprecated_kwargs: typing.Any,
) -> None:
    """Shape inference and the runtime's basic optimization. Symbolic shapes need no package more; weights above 2 GB
    become external by themselves, and no others."""
    model = _core.load(input_model if input_model is not None else deprecated_kwargs["input_model_path"])
    assert output_model_path is not None, "output_model_path is required."
    _core.preprocess(model, optimize=not skip_optimization, min_opset=11 if model.opset <= 10 else 0,
                     infer_shapes=not (skip_onnx_shape and skip_symbolic_shape)).save(output_model_path)
