"""Custom resources held to their definitions: structural schemas without unknown fields, defaults, and rules in CEL."""

import copy
import json
import pathlib

import celpy
import jsonschema


def load(folder):
    """{(apiVersion, kind): schema} of the CustomResourceDefinitions in a folder of JSON."""
    kinds = {}
    for path in pathlib.Path(folder).glob("*.json"):
        spec = json.loads(path.read_text())["spec"]
        for version in spec["versions"]:
            kinds[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = version["schema"]["openAPIV3Schema"]
    return kinds


def plain(schema, top=False):
    """A structural schema as one of JSON Schema, in which fields that are not named are errors."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {
        key: value
        for key, value in schema.items()
        if not key.startswith("x-kubernetes") and key not in ("nullable", "default", "format", "example")
    }
    if "properties" in schema:
        made["properties"] = {
            key: {"type": "object"} if top and key == "metadata" else plain(value)
            for key, value in schema["properties"].items()
        }
        if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
            made["additionalProperties"] = False
    for key in ("additionalProperties", "items"):
        if isinstance(schema.get(key), dict):
            made[key] = plain(schema[key])
    if schema.get("nullable") and "type" in made:
        made["type"] = [made["type"], "null"]
    return made


def parts(schema, value, path=""):
    """The schema, the value and the path of a resource and of all that is in it."""
    if value is None:
        return
    yield schema, value, path
    more = schema.get("additionalProperties")
    if isinstance(value, dict):
        for key, each in value.items():
            inner = schema.get("properties", {}).get(key) or (more if isinstance(more, dict) else None)
            if inner:
                yield from parts(inner, each, f"{path}.{key}")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, each in enumerate(value):
            yield from parts(schema["items"], each, f"{path}[{index}]")


def with_defaults(schema, resource):
    made = copy.deepcopy(resource)
    for inner, value, _ in parts(schema, made):
        if isinstance(value, dict):
            for key, field in inner.get("properties", {}).items():
                if "default" in field:
                    value.setdefault(key, copy.deepcopy(field["default"]))
    return made


def errors(schema, resource):
    """What is wrong with a resource."""
    made = with_defaults(schema, resource)
    found = [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in jsonschema.Draft7Validator(plain(schema, top=True)).iter_errors(made)
    ]
    rules = celpy.Environment()
    for inner, value, path in parts(schema, made):
        for rule in inner.get("x-kubernetes-validations", []):
            if "oldSelf" in rule["rule"]:  # of a change
                continue
            held = rules.program(rules.compile(rule["rule"])).evaluate({"self": celpy.json_to_cel(value)})
            if not held:
                found.append(f"{path}: {rule.get('message', rule['rule'])}")
    return found
