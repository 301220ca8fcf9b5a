"""Sessions of onnxruntime on one thread, also those that it opens itself. As a command: a script so.

    _one_thread.py SCRIPT [ARG ...]
"""
import os
import runpy
import sys


def sessions_on_one_thread():
    """Before other modules take SessionOptions by name."""
    import onnxruntime

    class OneThread(onnxruntime.SessionOptions):
        def __init__(self):
            super().__init__()
            self.intra_op_num_threads = 1

    onnxruntime.SessionOptions = OneThread


if __name__ == "__main__":
    sessions_on_one_thread()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
