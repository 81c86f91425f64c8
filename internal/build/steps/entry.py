"""Links the console script that a Python package declares to /app/server.

Run with the interpreter of the virtual environment as `entry.py NAME`. The
declaration is the distribution's entry_points.txt, group console_scripts.
"""
import os
import re
import sys
from importlib import metadata


def normal(name):
    """A name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main():
    name = sys.argv[1]
    found = {e.name: e.value for e in metadata.distribution(name).entry_points if e.group == "console_scripts"}
    own = [n for n in found if normal(n) == normal(name)]
    if not found:
        sys.exit(f"thv: Python package {name} declares no console script, so it cannot be run")
    if own:
        chosen = own[0]
    elif len(set(found.values())) == 1:
        chosen = next(iter(found))
    else:
        sys.exit(f"thv: Python package {name} declares several console scripts and none has its name: {', '.join(sorted(found))}")
    target = os.path.join("/app/venv/bin", chosen)
    if os.path.dirname(os.path.normpath(target)) != "/app/venv/bin" or not os.path.isfile(target):
        sys.exit(f"thv: Python package {name} declares the console script {chosen}, which is not installed")
    os.symlink(target, "/app/server")
    print("thv: entry", target)


main()
