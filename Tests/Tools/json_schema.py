"""Validates YAML files against a JSON Schema: prints their errors as JSON, by the files' names.

Usage: json_schema.py SCHEMA FILE...
"""

import json
import pathlib
import sys

import jsonschema
from ruamel.yaml import YAML


def main() -> None:
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    validator = jsonschema.Draft202012Validator
    validator.check_schema(schema)
    # YAML 1.2, as editors read it: `off` is a word.
    yaml = YAML(typ="safe", pure=True)
    errors = {}
    for name in sys.argv[2:]:
        path = pathlib.Path(name)
        found = validator(schema).iter_errors(yaml.load(path))
        errors[path.stem] = [f"{error.json_path}: {error.message}" for error in found]
    json.dump(errors, sys.stdout)


main()
