"""Gives the user who runs the server a name and a home, because programs that
ask who they are fail for a number without one. Run as `user.py UID`."""
import os
import sys

number = sys.argv[1]


def add(path, line):
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            text = f.read()
    if any(entry.split(":")[2:3] == [number] for entry in text.split("\n")):
        return
    if text and not text.endswith("\n"):
        text += "\n"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text + line + "\n")


add("/etc/passwd", f"app:x:{number}:{number}:app:/app:/sbin/nologin")
add("/etc/group", f"app:x:{number}:")
