"""Checks a value against a JSON schema: the part of the standard that docs/reference/schemas uses, and nothing else."""

import math
import re

KNOWN = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "properties", "required", "items", "enum", "const",
         "minimum", "maximum", "minItems", "additionalProperties", "anyOf", "pattern"}


def is_type(value, name):
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if name == "integer":
        return is_type(value, "number") and value == int(value)
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, kinds[name])


def problems(value, schema, root=None, where="$"):
    """What is wrong, a line each; a word in the schema that is not known is an error of the schema."""
    root = root or schema
    if unknown := set(schema) - KNOWN:
        raise ValueError(f"{where}: the schema uses {', '.join(sorted(unknown))}")
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return problems(value, root["$defs"][name], root, where)
    if "anyOf" in schema:
        found = [problems(value, each, root, where) for each in schema["anyOf"]]
        return [] if any(not each for each in found) else min(found, key=len)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_type(value, kind) for kind in kinds):
        return [f"{where}: is {value!r:.40}, must be {' or '.join(kinds)}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{where}: is {value!r:.40}, must be {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: is {value!r:.40}, must be one of {schema['enum']}")
    if is_type(value, "number"):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            found.append(f"{where}: {value} is out of range")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{where}: {value!r:.40} does not match {schema['pattern']}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            found.append(f"{where}: has {len(value)} elements, must have {schema['minItems']}")
        for i, each in enumerate(value):
            found += problems(each, schema.get("items", {}), root, f"{where}[{i}]")
    if isinstance(value, dict):
        found += [f"{where}: lacks {key}" for key in schema.get("required", []) if key not in value]
        others = schema.get("additionalProperties", True)
        for key, each in value.items():
            if key in schema.get("properties", {}):
                found += problems(each, schema["properties"][key], root, f"{where}.{key}")
            elif others is False:
                found.append(f"{where}: {key} is not known")
            elif isinstance(others, dict):
                found += problems(each, others, root, f"{where}.{key}")
    return found
