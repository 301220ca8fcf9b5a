from ._runtime import run_command

run_command()
