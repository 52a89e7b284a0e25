#!/usr/bin/env python3
"""Follows the tasks of docs/api.md, block by block: by curl, then by the generated client.

    api_tasks.py URL FOLDER, with the token on stdin

Prints a JSON object: what the shell printed, by line, and what the Python found. Fails where a block does.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/api.md"
ADDRESS = "https://console.example"


def main():
    url, folder = sys.argv[1:]
    os.chdir(folder)
    token = sys.stdin.readline().strip()
    pathlib.Path("token").write_text(f"{token}\n")
    pathlib.Path("authorization").write_text(f"Authorization: Bearer {token}\n")
    tasks = PAGE.read_text().replace(ADDRESS, url).split("\n## Tasks\n")[1].split("\n## ")[0]

    def blocks(language):
        return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", tasks, re.M | re.S))

    shell = subprocess.run(["bash", "-ec", blocks("sh")], stdout=subprocess.PIPE, text=True, timeout=120)
    if shell.returncode != 0:
        sys.exit(f"the shell ended with {shell.returncode}: {shell.stdout}")
    generator, *arguments = shlex.split(re.search(r"`(openapi-python-client [^`]*)`", tasks)[1])
    program = os.path.join(os.path.dirname(sys.executable), generator)
    subprocess.run([program, *arguments, "--output-path", "client"], check=True, stdout=sys.stderr)
    sys.path.insert(0, "client")
    names = {}
    exec(blocks("python"), names)
    json.dump(
        {
            "shell": shell.stdout.splitlines(),
            "found": [message.message_id for message in names["page"].items],
            "job": names["job"].to_dict(),
            "started": names["outcome"].to_dict(),
            "message": names["message"],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
