"""Where onnxruntime has quant_pre_process too."""
from .shape_inference import quant_pre_process

__all__ = ["quant_pre_process"]
