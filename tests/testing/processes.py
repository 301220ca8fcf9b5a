"""What runs beside a test."""

import pathlib


def children(pid):
    """Processes that `pid` started, with all that they started."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found += [int(folder.name), *children(int(folder.name))]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found
