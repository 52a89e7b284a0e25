#!/usr/bin/env python3
"""Generates a client from the API's description, imports it, and asks for everything that needs no key.

    api_client.py URL FOLDER, with the token on stdin

Prints a JSON object: for each operation how many rows it gave, and for `pauseHandler` what it did. Fails where the generator warns, a
module can't be imported, or an answer is no success.
"""
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import urllib.request

PACKAGE = "upstream_client"
SETTINGS = {
    "post_hooks": [],
    "project_name_override": "upstream-client",
    "package_name_override": PACKAGE,
    # The generator knows only some types of text.
    "content_type_overrides": {"application/x-ndjson": "text/plain"},
}


def generate(url, folder):
    with urllib.request.urlopen(f"{url}/openapi.json") as answer, open(f"{folder}/api.json", "wb") as file:
        file.write(answer.read())
    with open(f"{folder}/settings.json", "w") as file:
        json.dump(SETTINGS, file)
    generator = os.path.join(os.path.dirname(sys.executable), "openapi-python-client")
    subprocess.run(
        [generator, "generate", "--path", f"{folder}/api.json", "--config", f"{folder}/settings.json",
         "--output-path", f"{folder}/client", "--fail-on-warning"],
        check=True, stdout=sys.stderr,
    )  # fmt: skip
    sys.path.insert(0, f"{folder}/client")
    with open(f"{folder}/api.json") as file:
        return json.load(file)


def operations():
    """All modules of the client; those with an operation by their name."""
    found = {}
    package = importlib.import_module(PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        loaded = importlib.import_module(module.name)
        if hasattr(loaded, "sync_detailed"):
            found[module.name.rpartition(".")[2]] = loaded
    return found


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def main():
    url, folder = sys.argv[1:]
    document = generate(url, folder)
    client = importlib.import_module(PACKAGE).AuthenticatedClient(base_url=url, token=sys.stdin.readline().strip())
    calls, names = operations(), {}
    for path in document["paths"].values():
        for method, operation in path.items():
            names[operation["operationId"].lower()] = (method, operation["operationId"])
    results = {}
    for name, module in calls.items():
        method, operation = names[camel(name).lower()]
        keys = [p for p in inspect.signature(module.sync_detailed).parameters.values() if p.default is p.empty]
        # A stream never ends.
        if method != "get" or operation.startswith("stream") or [key.name for key in keys] != ["client"]:
            continue
        answer = module.sync_detailed(client=client)
        if answer.status_code != 200 or answer.parsed is None:
            sys.exit(f"{operation}: {answer.status_code} {answer.content[:500]}")
        results[operation] = len(answer.parsed.items) if hasattr(answer.parsed, "items") else 1
    body = importlib.import_module(f"{PACKAGE}.models").PauseHandlerBody(for_="30m", reason="a test")
    paused = calls["pause_handler"].sync_detailed("orders", client=client, body=body, idempotency_key="api-client-1")
    if paused.status_code != 200:
        sys.exit(f"pauseHandler: {paused.status_code} {paused.content[:500]}")
    results["pauseHandler"] = paused.parsed.to_dict()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
